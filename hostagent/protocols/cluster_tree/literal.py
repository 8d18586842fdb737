"""The exchange of the appendix: every host tells every host its INFO, those of its cluster more often.

Control between clusters grows with the square of the hosts: n hosts send n - 1 messages each every `ein_ms`.
"""

from hostagent.protocols.cluster_tree.exchange import Exchange
from hostagent.protocols.cluster_tree.messages import Info, Pointer, ranges
from hostagent.protocols.cluster_tree.parameters import ClusterTreeParameters
from hostagent.protocols.cluster_tree.tree import Tree


class Literal(Exchange):
    """One timer for each procedure of each tree, as in the appendix."""

    repeats = True

    @staticmethod
    def patience_ms(parameters: ClusterTreeParameters, hosts: int) -> float:  # noqa: ARG004 - everybody speaks to everybody
        """A host must notice the way, attach and have its gaps filled, each several times if packets are lost."""
        return 10 * (parameters.ein_ms + parameters.np1_ms + parameters.np2_ms + parameters.gfn_ms + parameters.gfx_ms)

    @staticmethod
    def background_per_second(parameters: ClusterTreeParameters, hosts: int) -> float:  # noqa: ARG004 - each tree has its own timers
        """Nothing: all messages belong to a tree."""
        return 0.0

    @staticmethod
    def background_per_source(parameters: ClusterTreeParameters, hosts: int) -> float:
        """INFO and parent pointers to all hosts in the cluster, INFO to all others, and answers to the declarations of all children.

        A host declares itself once in `np1_ms`, or in `np2_ms` if it gets no answer, and may detach before that.
        """
        to_each = 1 / parameters.eic_ms + 1 / parameters.epp_ms + 1 / parameters.ein_ms + 1 / parameters.np2_ms
        return 1000 * ((hosts - 1) * to_each + 2 / parameters.np2_ms)

    def begin(self, tree: Tree) -> None:
        """Set all timers, spread over one period, so that hosts do not all speak at once."""
        for timer in ("EIC", "EIN", "EPP", "GFC", "GFN", "GFX"):
            self._core.set(tree, timer, self._env.random.random())

    def on_timer(self, timer: str, source: str) -> None:
        """Each timer has its procedure, and is set again."""
        core, tree = self._core, self._core.trees[source]
        match timer:
            case "EIC":
                core.tell(core.others(inside=True), self._info(tree))
            case "EIN":
                core.tell(core.others(inside=False), self._info(tree))
                core.prune(tree, min(tree.info.prefix, *(tree.known(host).prefix for host in self._env.peers)))
            case "EPP":
                core.tell(core.others(inside=True), Pointer(0, tree.source, 0, tree.parent))
            case "GFC":
                core.fill(tree, [host for host in tree.neighbours if host in core.cluster])
            case "GFN":
                core.fill(tree, [host for host in tree.neighbours if host not in core.cluster])
            case "GFX":
                core.fill(tree, [host for host in core.others(inside=False) if host not in tree.neighbours])
        core.set(tree, timer)

    def _info(self, tree: Tree) -> Info:
        return Info(0, tree.source, 0, tree.info.prefix, ranges(tree.info), self._core.stamp_s())

    def parent_alive(self, tree: Tree) -> None:
        """Only parents in the cluster are watched: others are heard too seldom."""
        if tree.parent in self._core.cluster:
            self._core.set(tree, "PA")

    def parent_silent(self, tree: Tree) -> None:
        """The parent is dead."""
        self._core.change_parent(tree, "")
        self._core.new_parent(tree)

    def on_info(self, tree: Tree, sender: str, info: Info) -> None:  # noqa: ARG002 - MAP has it
        """Fill the gaps of a child."""
        if sender in tree.children:
            self._core.fill(tree, (sender,))
