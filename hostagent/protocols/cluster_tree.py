"""The cluster tree: hosts arrange themselves so that each message crosses to each cluster once, and everybody helps to repair.

Source: the first paper (Garcia-Molina, Kogan, Lynch 1987), section 4 and the appendix. Procedures carry the paper's names.

Model. Messages are lost, duplicated, reordered and delayed at will; links fail and come back; hosts crash and restart with their
storage. A host knows the other hosts, and of each message that arrives whether it crossed an expensive link: the cost bit.

What it does. The hosts form a tree of parents and children that is rooted at the source. In each cluster one host, the leader, has a
parent in another cluster, and the others are its children, so a message that trickles down the tree crosses to each of the k clusters
once: k - 1 expensive packets. Everybody keeps telling everybody which messages it has (INFO). A host moves to a parent that has more than
its own; a host that sees a gap in another's INFO fills it; so a source that is cut off after a partial broadcast does not stop the others.

Guarantees. No creation, no duplication, and validity carried by anyone: whoever is connected for long enough, hop by hop, to a host that
has a message gets it. Messages may be delivered out of order; the paper wants them prompt.

Messages. `Copy` (data, or repair where it fills a gap), `Info`, `Pointer`, `Declare`, `Adopt` and `Detach` (control). This is the paper's
algorithm as it stands: every host tells every host its INFO, so control grows with the square of the hosts.

Several sources are several instances of the protocol, one `Tree` each, that share what is known of the cluster. An instance exists at a
host as soon as it hears of its source.

Where the appendix and the text differ, slip or are silent, this file does as follows.
- CLUSTER starts as {i}; a cost bit of 0 adds to it. Option 3 is for hosts outside the cluster only, and there is no option for equal INFO
  outside it. A host whose parent in the cluster went silent goes through the options of case I. The source never attaches.
- The source comes last in the static order, so that hosts of its cluster that are level with it attach to it.
- A parent that did not answer is not asked again until others were tried. How long an answer and a repair may take is learnt: twice the
  longest round trip seen, where that is more than `np2_ms` and `resend_ms`. Else hosts with a slow line between them would never attach.
- Options 1 and 2 compare INFO sets as they were when the other's arrived. While messages flow, one's own set has moved on since then; two
  leaders of a cluster would each think themselves ahead, and never become one.
- What was sent to a host is not sent again before `resend_ms`: its INFO may have been on its way while the message was.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from hostagent.core import Core, Environment, Parameters
from hostagent.delivery import Copy, DeliverOnce
from hostagent.messages import Message, Purpose
from hostagent.promises import Carrier, Guarantee, Promise
from hostagent.sequences import SequenceSet

Milliseconds = Annotated[float, msgspec.Meta(gt=0)]
# Ranges of an INFO set beyond its first gap that fit into a datagram beside everything else; of more gaps only the latest are told.
MOST_RANGES = 100
# Round trips are believed up to this: a clock that jumps must not stop a host from trying again.
LONGEST_ROUND_TRIP_S = 5.0


class Info(Message, frozen=True):
    """The messages of `origin` that the sender has: all up to `prefix`, and from `first` to `last` for each pair in `beyond`."""

    prefix: int
    beyond: tuple[tuple[int, int], ...]


class Pointer(Message, frozen=True):
    """The sender's parent in the tree of `origin`; empty if it has none."""

    parent: str


class Declare(Info, frozen=True):
    """The sender wants to be a child of the receiver. Its INFO comes along, so that the parent can fill its gaps."""


class Adopt(Message, frozen=True):
    """The receiver is a child of the sender."""


class Detach(Message, frozen=True):
    """The sender is no child of the receiver, or not any longer."""


class ClusterTreeParameters(Parameters, frozen=True, kw_only=True):
    """The timers of the appendix, in milliseconds. Inside a cluster packets are cheap, so its timers run five times as fast."""

    np1_ms: Milliseconds = 400.0
    """Between two runs of the attachment procedure."""
    np2_ms: Milliseconds = 300.0
    """How long a new parent may take to answer: several round trips over a slow link."""
    pa_ms: Milliseconds = 1000.0
    """After this silence a parent in the cluster is taken for dead: five INFO messages must be lost in a row."""
    eic_ms: Milliseconds = 200.0
    """Between two INFO messages inside the cluster."""
    ein_ms: Milliseconds = 1000.0
    """Between two INFO messages to the other clusters; bounds how soon a new way is noticed."""
    epp_ms: Milliseconds = 200.0
    """Between two parent pointers inside the cluster."""
    gfc_ms: Milliseconds = 200.0
    """Between two rounds of gap filling with neighbours in the tree inside the cluster."""
    gfn_ms: Milliseconds = 1000.0
    """Between two rounds of gap filling with neighbours in the tree in other clusters."""
    gfx_ms: Milliseconds = 2000.0
    """Between two rounds of gap filling with everybody else in other clusters (section 4.4); seldom, as many may fill the same gap."""
    resend_ms: Milliseconds = 400.0
    """How long a message is not sent to the same host again: longer than a message and the INFO that tells of it take."""

    def __post_init__(self) -> None:
        if self.pa_ms <= self.eic_ms:
            raise ValueError(f"pa_ms={self.pa_ms:g} must be longer than eic_ms={self.eic_ms:g}: a parent is heard of that often")


class Tree:
    """One source's instance of the protocol at one host: the state of the appendix."""

    def __init__(self, source: str, hosts: tuple[str, ...], info: SequenceSet) -> None:
        self.source = source
        self.info = info
        self.map: dict[str, SequenceSet] = {host: SequenceSet() for host in hosts}
        self.lead: dict[str, int] = dict.fromkeys(hosts, 0)
        self.parent = ""
        self.parents: dict[str, str] = dict.fromkeys(hosts, "")
        self.children: dict[str, None] = {}
        self.payloads: dict[int, bytes] = {}
        self.sent_s: dict[tuple[str, int], float] = {}
        self.silent: dict[str, None] = {}
        self.unanswered = 0
        self.asked_s: dict[str, float] = {}
        order = (*(host for host in hosts if host != source), source)
        self.order = {host: number for number, host in enumerate(order)}

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The parent, if there is one, and the children."""
        return tuple(dict.fromkeys((*((self.parent,) if self.parent else ()), *self.children)))


class ClusterTree(Core):
    """All instances at one host, and what they share: the cluster."""

    name = "cluster-tree"
    number = 3
    summary = "a tree of clusters: one expensive packet to each, and everybody repairs"
    assumes = "hosts that can reach each other through others can reach each other directly"
    beyond = frozenset({"restart-lost"})
    messages = (Copy, Info, Pointer, Declare, Adopt, Detach)
    Parameters = ClusterTreeParameters
    parameters: ClusterTreeParameters

    def __init__(self, env: Environment, parameters: ClusterTreeParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = DeliverOnce(env)
        self.cluster: dict[str, None] = {env.host: None}
        self.trees: dict[str, Tree] = {}
        self.round_trip_s = 0.0

    @classmethod
    def promise(cls, parameters: ClusterTreeParameters, hosts: int) -> Promise:
        """What it promises, and what it costs at rest.

        Patience: a host must notice the way (EIN), attach (NP1, NP2) and have its gaps filled (GFN), each some times over where packets
        are lost. At rest every host still tells every other its INFO, and those of its cluster more often.
        """
        period_ms = parameters.ein_ms + parameters.np1_ms + parameters.np2_ms + parameters.gfn_ms + parameters.gfx_ms
        rates = (1 / parameters.eic_ms, 1 / parameters.ein_ms, 1 / parameters.epp_ms)
        return Promise(
            guarantees=(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY, Guarantee.AGREEMENT),
            carrier=Carrier.ANYONE,
            patience_ms=10 * period_ms,
            background_per_second=1000 * (hosts - 1) * sum(rates) + 4000 / parameters.np1_ms,
            retained=20 * hosts,
        )

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """INITIALIZE, for every source that was known before a restart, with the messages that are still kept."""
        self.delivery.restore(stored)
        for key, payload in stored.items():
            match key.split("/"):
                case ["delivered", source]:
                    self._tree(source)
                case ["message", source, sequence]:
                    self._tree(source).payloads[int(sequence)] = payload

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """The source sends a new message to its children."""
        self._accept(self._tree(self.env.host), sequence, payload, self.env.host, Purpose.DATA)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Every message tells of the cluster and of a living parent; then each kind has its procedure."""
        tree = self._tree(message.origin)
        self._update_cluster(sender, expensive)
        self._parent_alive(tree, sender)
        match message:
            case Copy(sequence=sequence, payload=payload):
                self._propagation(tree, sender, sequence, payload)
            case Declare():
                self._new_child(tree, sender, message)
            case Info():
                self._update_map(tree, sender, message)
            case Pointer(parent=parent):
                tree.parents[sender] = parent
            case Adopt():
                self._new_parent_acknowledged(tree, sender)
            case Detach():
                tree.children.pop(sender, None)

    def on_timer(self, name: str) -> None:
        """Each timer has its procedure, and all but the two that wait for an answer are set again."""
        timer, source = name.split("/")
        tree = self.trees[source]
        match timer:
            case "NP1" | "NP2" | "PA":
                self._new_parent(tree, timer)
                return
            case "EIC":
                self._tell(self._others(inside=True), self._info(tree))
            case "EIN":
                self._tell(self._others(inside=False), self._info(tree))
            case "EPP":
                self._tell(self._others(inside=True), Pointer(0, tree.source, 0, tree.parent))
            case "GFC":
                self._fill(tree, [host for host in tree.neighbours if host in self.cluster])
            case "GFN":
                self._fill(tree, [host for host in tree.neighbours if host not in self.cluster])
            case "GFX":
                self._fill_strangers(tree)
        self._set(tree, timer)

    def _tree(self, source: str) -> Tree:
        """The instance of a source; INITIALIZE where it is new."""
        if source not in self.trees:
            tree = self.trees[source] = Tree(source, self.env.hosts, self.delivery.delivered(source))
            for timer in ("EIC", "EIN", "EPP", "GFC", "GFN", "GFX", *(("NP1",) if source != self.env.host else ())):
                # Spread over one period, so that hosts do not all speak at once.
                self._set(tree, timer, self.env.random.random())
        return self.trees[source]

    def _set(self, tree: Tree, timer: str, share: float = 1.0) -> None:
        self.env.set_timer(f"{timer}/{tree.source}", share * getattr(self.parameters, f"{timer.lower()}_ms") / 1000)

    def _wait_for_answer(self, tree: Tree) -> None:
        """Set NP2: twice the longest round trip known, and twice as long with each time in a row that nobody answered."""
        after_s = max(self.parameters.np2_ms / 1000, 2 * self.round_trip_s)
        self.env.set_timer(f"NP2/{tree.source}", min(after_s * 2**tree.unanswered, LONGEST_ROUND_TRIP_S))

    def _cancel(self, tree: Tree, timer: str) -> None:
        self.env.cancel_timer(f"{timer}/{tree.source}")

    def _others(self, *, inside: bool) -> list[str]:
        return [host for host in self.env.peers if (host in self.cluster) == inside]

    def _tell(self, hosts: list[str], message: Message) -> None:
        """Send a control message to several hosts."""
        for host in hosts:
            self.env.send(host, message, Purpose.CONTROL)

    def _info(self, tree: Tree) -> Info:
        return Info(0, tree.source, 0, tree.info.prefix, _ranges(tree.info))

    def _update_cluster(self, sender: str, expensive: bool) -> None:
        """UPDATE-CLUSTER."""
        if expensive:
            self.cluster.pop(sender, None)
        else:
            self.cluster.setdefault(sender)

    def _parent_alive(self, tree: Tree, sender: str) -> None:
        """PARENT-ALIVE."""
        if sender == tree.parent and sender in self.cluster:
            self._set(tree, "PA")

    def _new_parent(self, tree: Tree, expired: str) -> None:
        """NEW-PARENT: the attachment procedure of section 4.2."""
        if expired == "PA":
            self._change_parent(tree, "")
        elif expired == "NP2":
            tree.silent.setdefault(tree.parent)
            tree.unanswered += 1
            self._change_parent(tree, "")
        candidate = self._leader_above(tree) if tree.parent in self.cluster else self._better_parent(tree)
        if candidate is not None:
            self._change_parent(tree, candidate)
        elif not tree.parent:
            tree.silent.clear()
        if tree.parent:
            self.env.send(tree.parent, Declare(0, tree.source, 0, tree.info.prefix, _ranges(tree.info)), Purpose.CONTROL)
            tree.asked_s[tree.parent] = self.env.now()
            self._cancel(tree, "NP1")
            self._wait_for_answer(tree)
        else:
            self._set(tree, "NP1")

    def _better_parent(self, tree: Tree) -> str | None:
        """Cases I and II, options 1 to 3: the best host of the first option that has any."""
        wanted = tree.map[tree.parent].highest if tree.parent else tree.info.highest
        leaders = [host for host in self._candidates(tree) if host in self.cluster and tree.parents[host] not in self.cluster]
        options = (
            [host for host in leaders if tree.lead[host] > 0],
            [host for host in leaders if tree.lead[host] == 0 and tree.order[host] > tree.order[self.env.host]],
            [host for host in self._candidates(tree) if host not in self.cluster and tree.map[host].highest > wanted],
        )
        best = next((option for option in options if option), [])
        return max(best, key=lambda host: (tree.map[host].highest, tree.order[host]), default=None)

    def _candidates(self, tree: Tree) -> Iterator[str]:
        return (host for host in self.env.peers if host not in tree.silent and host != tree.parent)

    def _leader_above(self, tree: Tree) -> str | None:
        """Case III: the ancestor that leads the cluster, or nobody where this host breaks a cycle, or None to stay."""
        ancestor, seen = tree.parent, {self.env.host: None}
        while ancestor not in seen:
            seen.setdefault(ancestor)
            above = tree.parents[ancestor]
            if above not in self.cluster:
                return ancestor if ancestor != tree.parent else None
            ancestor = above
        if ancestor == self.env.host and tree.order[self.env.host] == max(tree.order[host] for host in seen):
            return ""
        return None

    def _change_parent(self, tree: Tree, parent: str) -> None:
        if tree.parent and tree.parent != parent:
            self.env.send(tree.parent, Detach(0, tree.source, 0), Purpose.CONTROL)
        if parent != tree.parent:
            self.env.trace("parent", source=tree.source, parent=parent, leader=parent not in self.cluster)
        tree.parent = tree.parents[self.env.host] = parent
        self._cancel(tree, "PA")

    def _new_child(self, tree: Tree, child: str, declared: Declare) -> None:
        """NEW-CHILD."""
        tree.children.setdefault(child)
        # First the answer: behind all that fills the gaps it would be what a short queue drops, time and again.
        self.env.send(child, Adopt(0, tree.source, 0), Purpose.CONTROL)
        self._update_map(tree, child, declared)

    def _new_parent_acknowledged(self, tree: Tree, sender: str) -> None:
        """NEW-PARENT-ACKNOWLEDGED. The answer also tells how long a round trip takes."""
        if (asked_s := tree.asked_s.pop(sender, None)) is not None:
            self.round_trip_s = max(self.round_trip_s, min(self.env.now() - asked_s, LONGEST_ROUND_TRIP_S))
        if sender != tree.parent:
            self.env.send(sender, Detach(0, tree.source, 0), Purpose.CONTROL)
            return
        tree.silent.clear()
        tree.unanswered = 0
        self._cancel(tree, "NP2")
        self._set(tree, "NP1")
        self._parent_alive(tree, sender)

    def _update_map(self, tree: Tree, sender: str, info: Info) -> None:
        """UPDATE-MAP, and what a child lacks is sent to it."""
        numbers = (number for first, last in info.beyond for number in range(first, last + 1))
        tree.map[sender] = SequenceSet(info.prefix, tuple(numbers))
        tree.lead[sender] = tree.map[sender].highest - tree.info.highest
        if sender in tree.children:
            self._fill(tree, [sender])
        self._prune(tree)

    def _propagation(self, tree: Tree, sender: str, sequence: int, payload: bytes) -> None:
        """PROPAGATION: what is higher than any seen is taken from the parent only, and what is new goes on to the neighbours."""
        tree.map[sender].add(sequence)
        if sequence in tree.info:
            return
        newest = sequence > tree.info.highest
        if newest and sender != tree.parent:
            self.env.send(sender, Detach(0, tree.source, 0), Purpose.CONTROL)
            return
        self._accept(tree, sequence, payload, sender, Purpose.DATA if newest else Purpose.REPAIR)

    def _accept(self, tree: Tree, sequence: int, payload: bytes, sender: str, purpose: Purpose) -> None:
        """Store a message, deliver it, and pass it on to the neighbours that are not known to have it."""
        tree.payloads[sequence] = payload
        self.env.store(f"message/{tree.source}/{sequence}", payload)
        self.delivery.deliver(tree.source, sequence, payload)
        for host in tree.neighbours:
            if host != sender and sequence not in tree.map[host]:
                self._send_copy(tree, host, sequence, purpose)

    def _fill(self, tree: Tree, hosts: list[str]) -> None:
        """Fill the gaps of hosts: everything that is kept here and that they are not known to have."""
        for host in hosts:
            for sequence in tree.info.lacking(tree.map[host]):
                self._send_copy(tree, host, sequence, Purpose.REPAIR)

    def _fill_strangers(self, tree: Tree) -> None:
        """Gap filling among hosts of other clusters that are not neighbours: below the highest number that they have (Figure 4.1)."""
        for host in self._others(inside=False):
            if host not in tree.neighbours:
                known = tree.map[host]
                for sequence in tree.info.lacking(known):
                    if sequence < known.highest:
                        self._send_copy(tree, host, sequence, Purpose.REPAIR)

    def _send_copy(self, tree: Tree, host: str, sequence: int, purpose: Purpose) -> None:
        """Send a message, unless it is not kept any more or was sent to the same host a moment ago."""
        now_s = self.env.now()
        sent_s = tree.sent_s.get((host, sequence))
        again_s = max(self.parameters.resend_ms / 1000, 2 * self.round_trip_s)
        if sequence not in tree.payloads or (sent_s is not None and 0 <= now_s - sent_s < again_s):
            return
        tree.sent_s[host, sequence] = now_s
        self.env.send(host, Copy(0, tree.source, sequence, tree.payloads[sequence]), purpose)

    def _prune(self, tree: Tree) -> None:
        """Forget the messages that every host is known to have (section 5)."""
        everywhere = min(tree.info.prefix, *(tree.map[host].prefix for host in self.env.peers))
        for sequence in [number for number in tree.payloads if number <= everywhere]:
            del tree.payloads[sequence]
            self.env.store(f"message/{tree.source}/{sequence}", None)
        if tree.sent_s:
            tree.sent_s = {key: sent_s for key, sent_s in tree.sent_s.items() if key[1] > everywhere}


def _ranges(info: SequenceSet) -> tuple[tuple[int, int], ...]:
    """What lies beyond the first gap, as pairs of first and last."""
    _, beyond = info.state()
    ranges: list[tuple[int, int]] = []
    for number in beyond:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges[-MOST_RANGES:])
