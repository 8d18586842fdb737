"""The parameters of the cluster tree: the timers of the appendix, how hosts know their cluster, and the mode."""

from typing import Literal

from hostagent.contract.core import Milliseconds, Parameters


class ClusterTreeParameters(Parameters, frozen=True, kw_only=True):
    """Times are in milliseconds. Inside a cluster packets are cheap, so its timers run five times as fast."""

    mode: Literal["frugal", "literal"] = "frugal"
    """Who is told what between clusters: only what is needed (frugal), or everything to every host as in the appendix (literal)."""
    clusters_from: Literal["cost-bit", "time-stamps", "static", "none"] = "cost-bit"
    """How a host knows its cluster: the cost bit of what arrives, transit times, the list in `clusters`, or not at all."""
    clusters: str = ""
    """For static: the clusters, as in `h1,h2|h3,h4`; a host in none of them is a cluster of its own."""
    np1_ms: Milliseconds = 400.0
    """Time between two runs of the attachment procedure."""
    np2_ms: Milliseconds = 300.0
    """How long a new parent may take to answer: several round trips over a slow link."""
    pa_ms: Milliseconds = 1000.0
    """After this silence, that is several missing INFO messages, a parent in the cluster counts as dead. Frugal: one outside is asked."""
    eic_ms: Milliseconds = 200.0
    """Time between two INFO messages inside the cluster."""
    ein_ms: Milliseconds = 1000.0
    """Time between two INFO messages to other clusters; frugal: from a leader to its parent. Bounds how soon a new way is noticed."""
    epp_ms: Milliseconds = 200.0
    """Literal: time between two parent pointers inside the cluster. Frugal sends them with each INFO."""
    gfc_ms: Milliseconds = 200.0
    """Literal: time between two rounds of gap filling with neighbours in the tree inside the cluster. Frugal asks at once."""
    gfn_ms: Milliseconds = 1000.0
    """Literal: time between two rounds of gap filling with neighbours in the tree in other clusters."""
    gfx_ms: Milliseconds = 2000.0
    """Time between two rounds of gap filling with all other hosts in other clusters (section 4.4); frugal: with one host in turn."""
    resend_ms: Milliseconds = 400.0
    """Time before a message is sent to the same host again: longer than the message and the INFO that confirms it take."""

    def __post_init__(self) -> None:
        heard_ms = self.eic_ms * (2 if self.mode == "frugal" else 1)
        if self.pa_ms <= heard_ms:
            raise ValueError(
                f"pa_ms={self.pa_ms:g} must be longer than {heard_ms:g}: with eic_ms={self.eic_ms:g} a parent is heard that often"
            )
        if (self.clusters_from == "static") != bool(self.clusters):
            raise ValueError("clusters=h1,h2|h3,h4 and clusters_from=static go together: give both or neither")

    @property
    def static_clusters(self) -> tuple[tuple[str, ...], ...]:
        """The clusters of the list."""
        groups = (group.split(",") for group in self.clusters.split("|"))
        return tuple(tuple(host.strip() for host in group if host.strip()) for group in groups if any(map(str.strip, group)))
