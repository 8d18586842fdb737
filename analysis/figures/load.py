"""What a run was asked for, what it achieved, and whether its sources kept up."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.figures.statistics import quantiles
from analysis.judging.history import History

NS_PER_S: Final = 1e9
# A source that broadcasts one message in a hundred later than this has fallen behind.
BEHIND_MS: Final = 100.0
# A run that achieves this share of the rate that was offered has kept up with it.
KEPT_UP: Final = 0.95


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Messages a second, and how late they were. None where there is nothing to measure, such as a rate of one message."""

    offered_per_second: float | None = None
    """At which rate the application wanted to broadcast."""
    achieved_per_second: float | None = None
    """At which rate messages were delivered by the last of their destinations."""
    late_ms_p50: float | None = None
    late_ms_p99: float | None = None
    """How much later than wanted messages were broadcast; below a millisecond counts as 0."""
    held_back: int = 0
    """Messages that were offered, and not broadcast before the run ended."""
    busiest_agent: str = ""
    busiest_agent_share: float | None = None
    """The share of a processor that the busiest agent used between the first broadcast and the last delivery; None in the simulator."""
    overruns: int = 0
    """Datagrams that came faster than an agent could read them, and were lost."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """A sentence if sources broadcast late or not at all, or agents read too slowly.

        The run shows its own limits then, and not what was asked for.
        """
        if self.late_ms_p99 is not None and self.late_ms_p99 > BEHIND_MS:
            half = f"half of them more than {self.late_ms_p50:,.0f} ms, " if round(self.late_ms_p50 or 0) else ""
            late = [f"messages left later than asked for: {half}1 % more than {self.late_ms_p99:,.0f} ms"]
        else:
            late = []
        held_back = [f"{self.held_back:,} messages were never broadcast"] if self.held_back else []
        unread = [f"agents did not read {self.overruns:,} datagrams in time, which were lost"] if self.overruns else []
        if not (late or held_back or unread):
            return ()
        offered, achieved = self.offered_per_second, self.achieved_per_second
        if (late or held_back) and offered is not None and achieved is not None and achieved < KEPT_UP * offered:
            behind = [
                f"the sources fell behind: {_rate_text(offered)} messages a second offered, {_rate_text(achieved)} achieved"
            ]
        else:
            behind = []
        share = self.busiest_agent_share
        busy = [f"the busiest agent, {self.busiest_agent}, used {share:.0%} of a processor"] if share is not None else []
        return ("; ".join([*behind, *late, *held_back, *unread, *busy]),)


def load(history: History, deliveries: pa.Table, counters: Mapping[str, Mapping[str, int]]) -> Load:
    """The load of a run. `deliveries` is the table of that name."""
    made = {broadcast.message: broadcast for broadcast in reversed(history.broadcasts)}.values()
    late_ms = pa.array([float(broadcast.late_ms) for broadcast in made], pa.float64())
    p50, p99 = quantiles(late_ms, [0.5, 0.99]) if made else (None, None)
    busiest, share = _busiest(history)
    return Load(
        offered_per_second=rate_of(np.array([broadcast.at_ns - broadcast.late_ms * 1e6 for broadcast in made])),
        achieved_per_second=rate_of(completed_ns(history, deliveries)),
        late_ms_p50=p50,
        late_ms_p99=p99,
        held_back=history.held_back,
        busiest_agent=busiest,
        busiest_agent_share=share,
        overruns=sum(of_host.get("overflowed", 0) for of_host in counters.values()),
    )


def _rate_text(per_second: float) -> str:
    """A rate as people write it, however large: three digits, and no less than the whole number."""
    return f"{per_second:,.0f}" if per_second >= 100 else f"{per_second:.3g}"


def rate_of(moments_ns: np.ndarray) -> float | None:
    """Events a second, of events at these moments; None if they are fewer than two, or all at once."""
    if len(moments_ns) < 2 or (took_ns := float(moments_ns.max() - moments_ns.min())) <= 0:
        return None
    return (len(moments_ns) - 1) / took_ns * NS_PER_S


def completed_ns(history: History, deliveries: pa.Table) -> np.ndarray:
    """When each message was delivered by the last of its destinations, if all of them other than its origin did."""
    by_message = deliveries.group_by(["origin", "sequence"]).aggregate([("delivered_ns", "max"), ("host", "count_distinct")])
    sizes = {message: len({*to} - {message[0]}) for message, to in history.destinations.items()}
    wanted = pa.array(
        [
            sizes.get((origin, sequence), 0)
            for origin, sequence in zip(by_message["origin"].to_pylist(), by_message["sequence"].to_pylist(), strict=True)
        ],
        pa.int64(),
    )
    whole = by_message.filter(pc.greater_equal(by_message["host_count_distinct"], wanted))
    return np.asarray(whole["delivered_ns_max"].cast(pa.int64()).to_numpy(), dtype=float)


def _busiest(history: History) -> tuple[str, float | None]:
    """The agent that used most of a processor while there was something to do, and how much; nobody where agents did not say it."""
    if not history.broadcasts or not history.deliveries:
        return "", None
    first_ns = min(broadcast.at_ns for broadcast in history.broadcasts)
    last_ns = max(delivery.at_ns for delivery in history.deliveries)
    taken: dict[str, list[tuple[int, int]]] = {}
    for one in history.samples:
        if one.processor_ms is not None:
            taken.setdefault(one.host, []).append((one.at_ns, one.processor_ms))
    shares = [(share, host) for host, of_host in taken.items() if (share := _share(of_host, first_ns, last_ns)) is not None]
    share, host = max(shares, default=(None, ""))
    return host, share


def _share(taken: Sequence[tuple[int, int]], first_ns: int, last_ns: int) -> float | None:
    """The share of a processor that a host used from the last sample before an instant to the first one after another."""
    from_ns, used_before_ms = ([sample for sample in taken if sample[0] <= first_ns] or taken[:1])[-1]
    to_ns, used_ms = ([sample for sample in taken if sample[0] >= last_ns] or taken[-1:])[0]
    if to_ns <= from_ns or used_ms < used_before_ms:
        # A host that restarted counts from 0.
        return None
    return (used_ms - used_before_ms) * 1e6 / (to_ns - from_ns)
