"""The frugal exchange: leaders speak for their clusters, to one host at a time, and only when there is something to say.

In the appendix every host tells every host its INFO, so that (a) a host finds a parent that is ahead, (b) gaps of hosts in other clusters
are seen, (c) a way that opens or closes is noticed, (d) every host knows its cluster, and (e) hosts know which messages all hosts have and
can forget those. Between clusters that is n^2 messages a period. None of the five needs that many.

Inside a cluster packets are cheap, so every host keeps telling every other, all in one datagram: INFO, parent and more (`Report`), and who
is in the cluster (`Hello`); half as often if nothing has changed. A source with its first message does so at once, and who hears that from
the source attaches at once. Between clusters:

- *Leaders only.* A cluster has what its leader has, or gets it from the leader. So a leader speaks for all, and a member that happens to
  hear from a host that is ahead tells its leader (`Hearsay`).
- *Parents.* While messages flow, a leader reports to its parent every other `ein_ms`. So the parent learns what was lost, and that it
  still has this child. The answer travels with the next message to the child, or by itself if there is none soon. A leader that hears
  nothing from its parent for `pa_ms` asks whether the parent lives; so a way that closes is noticed. After three questions the leader
  looks for another parent, but keeps the old one until some host is ahead of the leader. In case II, option 3 it would be ahead of the
  parent; but if the parent is cut off together with the source, no other host ever has more than the parent, and the leader would never
  get what the others have. A child that is silent for six `ein_ms` is dropped: it has found another parent, or is dead.
- *Gaps.* A host asks for missing messages soon after it sees a gap, also in a report of its parent, and does not wait for a period to
  end. It only waits a moment, in which a message that was overtaken may still arrive.
- *Probes.* Every `gfx_ms` a leader reports to one outside host that is not below it in the tree: to each cluster in turn, and to each host
  of a cluster in turn, since some may be dead. The probed host fills the gaps of the leader, and answers only if it is ahead or if the
  leader could fill its gaps. That provides (a) and (b) in time. A host that has lost its parent or found a new one, and a source with its
  first message, probe fast at first and then, without success, more and more slowly: down to once in `np1_ms` without a parent, in
  `ein_ms` with a gap, and else in `gfx_ms`. So a way that opens is noticed. A new leader starts with the parent of the leader before it.
- *Below.* With its report a host says which hosts are below it in the tree and up to which message all of these have everything. At the
  root the reports add up to what every host has, (e), and the answers carry that down the tree. INFO sets only grow, so such a statement
  stays true however the tree changes.
- *Finding the cluster*, (d). A host says hello to its two neighbours in the list of hosts, since lists are mostly written LAN by LAN,
  and to others, nearest first, until it knows a host in its cluster. A host that is greeted from its own cluster greets back, and mates
  tell each other which hosts they know. A host that is greeted from another cluster for the first time says once who is in its own. If
  clusters merge that are not parent and child in the tree, a probe finds out, after (k - 2) / 2 periods on average.

Cost between clusters, with k clusters and nothing lost: while messages flow k - 1 reports every 2 `ein_ms` and k - 1 probes every `gfx_ms`,
at rest k - 1 questions and answers every `pa_ms` and the probes. The cost does not depend on the number of hosts.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hostagent.contract.messages import Message
from hostagent.protocols.cluster_tree.acquaintance import Acquaintance
from hostagent.protocols.cluster_tree.exchange import Exchange
from hostagent.protocols.cluster_tree.messages import Hearsay, Hello, Info, Report, ranges
from hostagent.protocols.cluster_tree.parameters import ClusterTreeParameters
from hostagent.protocols.cluster_tree.tree import Tree

if TYPE_CHECKING:
    from hostagent.protocols.cluster_tree.core import ClusterTree

# How often a parent is asked before another is looked for.
MOST_QUESTIONS = 3
# In trouble the first probe is sent after this share of `eic_ms`, and each wait after it is longer by this factor.
FIRST_PROBE = 0.25
SLOWING = 1.8
# Hosts of a cluster tell each other everything after `eic_ms`, more or less by this share.
JITTER = 0.1
# Periods of `ein_ms` after which a silent child is dropped: a child reports every second period.
MOST_QUIET_PERIODS = 6
# Transit times are useful once there are some from every host.
SAMPLES_FROM_ALL = 3


class Frugal(Exchange):
    """Timers of the host: EIC (the cluster), EIN (parents), PROBE. Timers of each tree: GAP (ask for messages), OWE (answer a child)."""

    repeats = False

    def __init__(self, core: "ClusterTree") -> None:
        super().__init__(core)
        self._known = Acquaintance(core)
        self._rounds = 0
        self._told_cluster: tuple[Message, ...] = ()
        self._probed: dict[str, int] = {}
        self._probed_clusters: dict[str, int] = {}
        """The number of the last probe to each cluster, by the cluster's name."""
        self._probes = 0
        self._pace_s = 0.0
        self._left = 0
        """How many hosts were worth probing at the last probe."""
        self._reports: dict[tuple[str, str], tuple[int, int]] = {}
        """For each tree and child: the hosts below the child, and up to which message these hosts have everything."""
        self._owed: dict[tuple[str, str], None] = {}
        self._questions: dict[str, int] = {}
        """For each tree, the unanswered questions to a parent that answered before."""
        self._at_last_ein: dict[str, tuple[int, bool]] = {}
        """For each tree, the highest message at the last EIN, and whether this host sent no report then though messages flowed."""
        self._quiet: dict[tuple[str, str], int] = {}
        """For each tree and child, the periods since the child was last heard."""
        self._asking: dict[str, None] = {}
        self._tried: dict[str, None] = {}

    @staticmethod
    def patience_ms(parameters: ClusterTreeParameters, hosts: int) -> float:
        """A leader must notice that its parent is gone, or find a host that is ahead: in the worst case the last host that it tries."""
        attach_ms = parameters.pa_ms + parameters.ein_ms + parameters.np1_ms + MOST_QUESTIONS * parameters.np2_ms
        return 5 * attach_ms + hosts * parameters.ein_ms

    @staticmethod
    def background_per_second(parameters: ClusterTreeParameters, hosts: int) -> float:
        """A hello to every host of the cluster, every other `eic_ms` as nothing changes, and one with each probe."""
        return 1000 * ((hosts - 1) / (2 * parameters.eic_ms) + 1 / parameters.gfx_ms)

    @staticmethod
    def background_per_source(parameters: ClusterTreeParameters, hosts: int) -> float:
        """A report with each hello; and questions between parents and children in different clusters.

        A question is three messages, and so is its answer: a declaration or an adoption, a hello or a second report, and a report. It is
        asked after each `pa_ms`, and `MOST_QUESTIONS` times if packets are lost. Each other host is in the cluster, or a parent or child
        outside it, so the more expensive of the two counts for all.
        """
        to_each = max(1 / (2 * parameters.eic_ms), 3 * MOST_QUESTIONS / parameters.pa_ms)
        return 1000 * ((hosts - 1) * to_each + 1 / parameters.gfx_ms)

    def start(self) -> None:
        """Find the cluster, and begin to report to it."""
        self._set("EIC", self._parameters.eic_ms / 1000 * self._env.random.random())
        self._set("EIN", self._parameters.ein_ms / 1000 * self._env.random.random())
        self._hurry()

    def begin(self, tree: Tree) -> None:
        """The source of a tree announces it; other hosts have heard of the tree from some host."""
        if tree.source == self._env.host:
            # Hosts that have just started need a moment to find their cluster, or several hosts of a cluster would attach.
            knows_cluster = self._rounds > 1
            self._hurry(0.0 if knows_cluster else self._parameters.eic_ms / 1000)
            if knows_cluster:
                self._set("EIC", 0.0)

    def on_timer(self, timer: str, source: str) -> None:
        """Each timer has its procedure."""
        match timer:
            case "EIC":
                self._tell_cluster()
                # At a fixed rhythm that fits that of the messages, two leaders of a cluster could always hear of each other's last but
                # one message, so that neither ever sees that the other has as much.
                self._set("EIC", self._parameters.eic_ms / 1000 * self._env.random.uniform(1 - JITTER, 1 + JITTER))
            case "EIN":
                self._known.begin_period()
                self._drop_quiet_children()
                self._tell_parents()
                self._set("EIN", self._parameters.ein_ms / 1000)
            case "PROBE":
                self._probe()
            case "GAP":
                self._ask_for_gaps(self._core.trees[source])
            case "OWE":
                # The children that were sent no message meanwhile.
                self._pay(self._core.trees[source], [host for owing, host in self._owed if owing == source])

    def _set(self, timer: str, after_s: float) -> None:
        self._env.set_timer(f"{timer}/", after_s)

    # Inside the cluster

    def _tell_cluster(self) -> None:
        """Tell every host of the cluster everything; if nothing has changed, only every other time."""
        self._rounds += 1
        messages = self._known.hello(mate=True), *map(self._report, self._core.trees.values())
        changed = messages != self._told_cluster
        self._told_cluster = messages if changed else ()
        if changed:
            mates = [host for host in self._core.cluster if host != self._env.host]
            for message in messages:
                self._core.tell(mates, message)
        self._known.greet_again()

    def on_hello(self, sender: str, hello: Hello) -> None:
        """Learn which hosts are in the sender's cluster."""
        self._known.on_hello(sender, hello)

    # Parents and children

    def parent_alive(self, tree: Tree) -> None:
        """Watch the parent, inside or outside the cluster. Any message from the parent counts as an answer."""
        if self._questions:
            self._questions.pop(tree.source, None)
        if tree.parent in tree.asked_s:
            self._core.answered(tree)
        self._core.set(tree, "PA")

    def parent_silent(self, tree: Tree) -> None:
        """A silent parent in the cluster is dead. A parent outside, which sends nothing unless there is news, is asked."""
        if tree.parent in self._core.cluster:
            self._core.change_parent(tree, "")
            self._core.new_parent(tree)
        else:
            self._questions.setdefault(tree.source, 0)
            self._core.declare(tree)

    def unanswered(self, tree: Tree) -> None:
        """Give up a new parent that does not answer. Ask an established parent again, and keep it until another host is ahead of this one.

        At rest no host is ahead, so a host that gave up its parent could attach to no other: on lossy links trees would fall apart.
        """
        if tree.source not in self._questions:
            self._core.give_up(tree)
            return
        self._questions[tree.source] += 1
        if self._questions[tree.source] < MOST_QUESTIONS:
            self._core.declare(tree)
            return
        if self._lags(tree):
            self._core.give_up(tree)
            return
        if self._questions[tree.source] == MOST_QUESTIONS:
            self._hurry()
        self._core.set(tree, "NP1")
        self._env.set_timer(f"PA/{tree.source}", self._parameters.np1_ms / 1000)

    def _lags(self, tree: Tree) -> bool:
        """Whether a host other than the parent is known to be ahead of this host."""
        return any(tree.highest(host) > tree.info.highest for host in tree.map if host != tree.parent)

    def declared(self, tree: Tree) -> None:
        """Tell a new parent at once which hosts are below this child, and probe soon for other hosts."""
        if self._core.leads(tree):
            self._known.say_hello(tree.parent)
            if tree.source not in self._questions:
                self._hurry(self._parameters.eic_ms / 1000)
        self._core.tell((tree.parent,), self._report(tree))

    def adopted(self, tree: Tree, child: str) -> None:
        """Tell a new child at once all that it needs."""
        self._quiet.pop((tree.source, child), None)
        if child not in self._core.cluster and self._known.may_answer(tree.source, child):
            self._core.tell((child,), self._report(tree))

    def _drop_quiet_children(self) -> None:
        """Drop silent children, so that a child that is gone is not sent messages for ever."""
        for tree in self._core.trees.values():
            for child in list(tree.children):
                periods = self._quiet[tree.source, child] = self._quiet.get((tree.source, child), 0) + 1
                if periods > MOST_QUIET_PERIODS:
                    self._forget_child(tree, child)

    def _forget_child(self, tree: Tree, child: str) -> None:
        tree.children.pop(child, None)
        for told in (self._quiet, self._reports, self._owed):
            told.pop((tree.source, child), None)

    def changed_parent(self, tree: Tree) -> None:
        """Forget the questions, which were for the parent before. Without a parent, look for one."""
        self._questions.pop(tree.source, None)
        if not tree.parent:
            self._hurry()

    def _tell_parents(self) -> None:
        """Report to parents outside every other time while messages flow. At rest the parent is silent, and `parent_silent` asks it."""
        told: dict[str, None] = {}
        for tree in self._core.trees.values():
            highest, skipped = self._at_last_ein.get(tree.source, (0, False))
            flows = tree.info.highest > highest
            tells = bool(tree.parent) and self._core.leads(tree) and flows and skipped
            self._at_last_ein[tree.source] = tree.info.highest, flows and not tells
            if tells:
                if tree.parent not in told:
                    self._known.say_hello(tree.parent)
                told.setdefault(tree.parent)
                self._core.tell((tree.parent,), self._report(tree))

    def sent_copies(self, tree: Tree, hosts: Iterable[str]) -> None:
        """Send the answers that children are owed together with the message."""
        if self._owed:
            self._pay(tree, [host for host in hosts if (tree.source, host) in self._owed])

    def _pay(self, tree: Tree, owed: list[str]) -> None:
        """Send children the answers that they are owed, if there are any."""
        for host in owed:
            del self._owed[tree.source, host]
        if owed:
            self._core.tell(owed, self._report(tree))

    def on_info(self, tree: Tree, sender: str, info: Info) -> None:
        """A report arrived."""
        if not isinstance(info, Report):
            return
        tree.parents[sender] = info.parent
        if info.parent == self._env.host:
            tree.children.setdefault(sender)
            self._quiet.pop((tree.source, sender), None)
            self._reports[tree.source, sender] = int.from_bytes(info.covered), info.stable
        else:
            self._forget_child(tree, sender)
        self._settle(tree, info.everywhere)
        outside = sender not in self._core.cluster
        if sender == tree.source and not (outside or tree.parent or sender in tree.silent):
            # The source leads its cluster: there is no better parent to wait for.
            self._core.new_parent(tree)
        if sender == tree.parent and self._is_behind(tree):
            self.on_gap(tree)
        if sender in tree.neighbours:
            self._core.fill(tree, (sender,))
            if outside and sender in tree.children and self._known.may_answer(tree.source, sender):
                self._owed.setdefault((tree.source, sender))
                self._env.set_timer(f"OWE/{tree.source}", self._parameters.np2_ms / 2000)
        elif outside:
            self._meet(tree, sender, info)

    def _meet(self, tree: Tree, stranger: str, info: Info) -> None:
        """A host of another cluster told which messages it has: fill its gaps, ask it to fill gaps here, or attach to it."""
        core, known = self._core, tree.known(stranger)
        core.fill(tree, (stranger,))
        helps = next(known.lacking(tree.info), tree.info.highest) < tree.info.highest
        if (tree.info.highest > known.highest or helps) and self._known.may_answer(tree.source, stranger):
            self._known.say_hello(stranger)
            core.tell((stranger,), self._report(tree))
        if known.highest > tree.info.highest and tree.source != self._env.host:
            if not core.leads(tree):
                core.tell((tree.parent,), Hearsay(0, tree.source, 0, info.prefix, info.beyond, 0.0, stranger))
            elif self._in_trouble(tree):
                core.new_parent(tree)

    # Gaps

    def on_gap(self, tree: Tree) -> None:
        """Wait a moment for messages that were overtaken, then ask."""
        if tree.source not in self._asking:
            self._asking.setdefault(tree.source)
            self._env.set_timer(f"GAP/{tree.source}", self._parameters.eic_ms / 4000)

    def _is_behind(self, tree: Tree) -> bool:
        """Whether the parent has messages that this host lacks."""
        return tree.highest(tree.parent) > tree.info.highest

    def _ask_for_gaps(self, tree: Tree) -> None:
        """Tell the parent which messages are missing, until none is."""
        self._asking.pop(tree.source, None)
        if tree.parent and (tree.info.has_gaps or self._is_behind(tree)):
            self._core.tell((tree.parent,), self._report(tree))
            self._asking.setdefault(tree.source)
            self._env.set_timer(f"GAP/{tree.source}", self._core.again_s())

    # Probes

    def _hurry(self, after_s: float = 0.0) -> None:
        """Probe fast from now on."""
        self._pace_s = FIRST_PROBE * self._parameters.eic_ms / 1000
        self._tried.clear()
        self._set("PROBE", after_s + self._pace_s * self._env.random.random())

    def _probe(self) -> None:
        """Report to one host outside, for the trees in which this host leads its cluster."""
        led = [tree for tree in self._core.trees.values() if self._core.leads(tree)]
        target = self._parent_of_a_mate(led)
        if not target and (target := self._target(led)):
            # A parent of a mate, which may be dead, does not stand for its cluster: the others of the cluster keep their turn.
            self._probed_clusters[self._known.name_of_cluster(target)] = self._probes + 1
        if target:
            self._probes += 1
            self._probed[target] = self._probes
            if self._known.wants_hello(target):
                self._known.say_hello(target)
            for tree in led:
                self._core.tell((target,), self._report(tree))
        orphan, gaps = any(map(self._is_orphan, led)), any(tree.info.has_gaps for tree in led)
        slowest_ms = self._parameters.np1_ms if orphan else self._parameters.ein_ms if gaps else self._parameters.gfx_ms
        left = self._worth_probing(led).bit_count()
        self._pace_s = min((SLOWING if left >= self._left else 1.0) * self._pace_s, slowest_ms / 1000)
        self._left = left
        self._set("PROBE", self._pace_s if led or self._seeks else self._parameters.gfx_ms / 1000)

    @property
    def _seeks(self) -> bool:
        """Whether to look for the cluster: this host knows no other member, or has not greeted its neighbours in the list."""
        if self._parameters.clusters_from not in {"cost-bit", "time-stamps"}:
            return False
        return (len(self._core.cluster) == 1 and not self._core.trees) or bool(self._unmet_neighbours())

    def _unmet_neighbours(self) -> list[str]:
        spoken_to = (self._core.cluster, self._known.cluster_of, self._probed)
        return [host for host in self._known.beside() if not any(host in known for known in spoken_to)]

    def _is_orphan(self, tree: Tree) -> bool:
        """Whether this host has no parent, or one that does not answer."""
        silent = self._questions.get(tree.source, 0) >= MOST_QUESTIONS
        return tree.source != self._env.host and (not tree.parent or silent)

    def _in_trouble(self, tree: Tree) -> bool:
        """Whether this host is an orphan, or has a gap."""
        return self._is_orphan(tree) or tree.info.has_gaps

    def _target(self, led: list[Tree]) -> str:
        """The host whose turn it is: one of the cluster that was not probed for the longest time."""
        if self._seeks or (
            self._parameters.clusters_from == "time-stamps" and self._probes < SAMPLES_FROM_ALL * len(self._env.peers)
        ):
            hosts = self._unmet_neighbours() or list(self._env.peers)
        else:
            hosts = list(self._known.hosts(self._worth_probing(led)))
        alone = len(self._core.cluster) == 1

        def preference(host: str) -> tuple[float, ...]:
            """First the cluster not probed for the longest time; in it the host not probed for the longest time."""
            near = self._known.distance(host) if alone else self._env.random.random()
            return self._probed_clusters.get(self._known.name_of_cluster(host), 0), self._probed.get(host, 0), near

        return min(hosts, key=preference, default="")

    def _parent_of_a_mate(self, led: list[Tree]) -> str:
        """The parent of a leader that is gone, if it was not tried since this host is in trouble."""
        host = next((host for host in self._parents_of_mates(led) if host not in self._tried), "")
        if host:
            self._tried.setdefault(host)
        return host

    def _parents_of_mates(self, led: list[Tree]) -> Iterator[str]:
        """If this host has no parent: the outside parents that hosts of its cluster had."""
        for tree in led:
            if not tree.parent and tree.source != self._env.host:
                found = (tree.parents.get(mate, "") for mate in self._core.cluster if mate != self._env.host)
                yield from (host for host in found if host and host not in self._core.cluster)

    def _worth_probing(self, led: list[Tree]) -> int:
        """The outside hosts that, in some tree, are neither below this host nor, unless in trouble, in the cluster of a parent or child."""
        worth = 0
        for tree in led:
            known = self._below(tree)[0]
            for host in tree.neighbours:
                known |= (
                    self._known.bit(host) if self._in_trouble(tree) else self._known.cluster_of.get(host, self._known.bit(host))
                )
            worth |= self._known.everybody & ~known
        return worth & ~self._known.mask(self._core.cluster)

    # What is said

    def _report(self, tree: Tree) -> Message:
        covered, stable = self._below(tree)
        info = (tree.info.prefix, ranges(tree.info), self._core.stamp_s())
        return Report(0, tree.source, 0, *info, tree.parent, self._known.to_bytes(covered), stable, tree.everywhere)

    def _below(self, tree: Tree) -> tuple[int, int]:
        """The hosts known to be below this one, itself included, and up to which message all of them have everything."""
        covered, stable = self._known.bit(self._env.host), tree.info.prefix
        for child in tree.children:
            its_covered, its_stable = self._reports.get((tree.source, child), (0, stable))
            covered, stable = covered | its_covered, min(stable, its_stable)
        return covered, stable

    def _settle(self, tree: Tree, everywhere: int) -> None:
        """Forget the messages that every host has, as another host reported or as computed here."""
        covered, stable = self._below(tree)
        self._core.prune(tree, max(everywhere, stable) if covered == self._known.everybody else everywhere)
