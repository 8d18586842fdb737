"""The cluster tree: hosts form a tree so that each message crosses to each cluster once, and all hosts help to repair.

Source: the first paper (Garcia-Molina, Kogan, Lynch 1987), section 4 and the appendix. Procedures carry the paper's names.

Model. Messages are lost, duplicated, reordered and delayed at will; links fail and come back; hosts crash and restart with their
storage. A host knows the list of hosts, and for each message that arrives whether the message crossed an expensive link: the cost bit.
Instead of the bit, a host can use transit times, a list of clusters, or nothing (`knowledge.py`).

What it does. The hosts form a tree of parents and children that is rooted at the source. In each cluster one host, the leader, has a
parent in another cluster, and the others are its children. So a message that is sent down the tree crosses to each of the k clusters
once: k - 1 expensive packets. Hosts tell each other which messages they have (INFO). A host moves to a parent that has more messages than
its own parent, and a host that sees a gap in another's INFO fills it. So a source that is cut off half-way does not stop the others.

Guarantees. No creation, no duplication, and validity carried by anyone: a host that is connected for long enough, hop by hop, to a host
with a message gets the message. Messages may be delivered out of order, since the paper prefers prompt delivery. Frugal with the cost bit:
once the network is whole and a message was broadcast, the parents form a cluster tree and keep it. At rest a host keeps no messages, and
sends at most what its exchange states.

Messages. `Copy` (data, or repair where it fills a gap); everything else is control (`messages.py`).

Modes. An *exchange* decides who tells whom what. `literal.py` does what the appendix says: every host tells every host its INFO, so the
number of control packets grows with the square of the number of hosts. In `frugal.py` leaders speak for their clusters. The tree,
attachment, propagation and gap filling are the same in both modes and are in this file.

Each source has its own instance of the protocol, a `Tree`; all instances share what is known of the cluster. A host makes an instance as
soon as it hears of the source.

Where the appendix and the text of the paper differ, err or are silent, this file does as follows.
- CLUSTER starts as {i}; a cost bit of 0 adds to it. Option 3 is for hosts outside the cluster only, and there is no option for equal INFO
  outside it. A host whose parent in the cluster went silent goes through the options of case I. The source never attaches.
- The source comes last in the static order, so that hosts of its cluster that are level with it attach to it.
- A parent that did not answer is not asked again until it is heard, or no other is left: a host with a dead mate and a slow parent would
  leave the parent for the mate before the parent's messages arrive. How long an answer and a repair may take is learnt: twice the
  longest round trip seen, if that is more than `np2_ms` and `resend_ms`. Otherwise hosts with a slow link between them would never attach.
- Options 1 and 2 compare INFO sets as they were when the other's INFO arrived. While messages flow, a host's own set has grown since then:
  two leaders of a cluster would each take themselves to be ahead, and neither would attach to the other.
- A message is not sent to the same host again before `resend_ms`: the host's INFO and the message may have crossed on the way.
- A host that gets the newest message from a host that is not its parent sends a `Detach`, even if it has the message already. In the paper,
  a former parent that did not notice that its child left would send duplicates for ever.
- Only children are sent messages that are higher than all that they have, since other hosts do not accept these.
- A host that has higher messages than its leader leaves the leader if the leader has no parent, and leads too; then the old leader attaches
  to the host (option 1). Section 4.3 says that a host never has less than its descendants. But the pointers that case III follows may be
  out of date, and so may the INFO sets of options 1 and 2 (see above), so a host can attach to a leader that has less. A leader with a
  parent catches up. A leader without one, in a cluster that is cut off, would stay behind for ever: it attaches to leaders only, the host
  keeps its leader (case III), and what the host has is too high for the leader to accept. The host with the highest messages of the
  cluster has no reason to leave again, so the moves end; where leaders have parents, nothing changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Message, Purpose
from hostagent.contract.promises import Carrier, Guarantee, Promise
from hostagent.parts.delivery import Copy, DeliverOnce
from hostagent.protocols.cluster_tree.exchange import Exchange
from hostagent.protocols.cluster_tree.frugal import Frugal
from hostagent.protocols.cluster_tree.knowledge import KNOWLEDGE, SAMPLES
from hostagent.protocols.cluster_tree.literal import Literal
from hostagent.protocols.cluster_tree.messages import Adopt, Declare, Detach, Hearsay, Hello, Info, Pointer, Report, ranges
from hostagent.protocols.cluster_tree.parameters import ClusterTreeParameters
from hostagent.protocols.cluster_tree.tree import Tree

# Longer round trips are not believed: a clock that jumps must not stop a host from trying again.
LONGEST_ROUND_TRIP_S = 5.0
# The wait for an answer doubles at most this often; an unbounded power of two would overflow a float.
MOST_DOUBLINGS = 30
# Every host says after so many messages what it has: half of those that may be unfinished.
SAID_EVERY = 128
# A child that has said nothing for so long does not hold up the source.
ANSWERS_WITHIN_S = 0.5
# A bit for each host must fit into a datagram, beside the ranges of an INFO set.
MOST_HOSTS = 4000

# At rest no message is kept: every host has them all, and knows it. What is left has at most one entry for each host, in these fields. For
# all trees: the cluster (seen twice, here and in `clusters`), and in the exchange the numbers, cluster_of, met, introduced, mates, greeted,
# answered, probed, probed_clusters, tried; and `_told_cluster` has one hello.
FIELDS_OF_A_HOST = 12
# For each tree: map, lead, parents, children, silent, asked_s and the numbers, and said (a pair each, so three); in the exchange answered,
# reports (the same), owed and quiet. Eight more are single: the tree, its deliveries, its report in `_told_cluster`, questions, asking,
# at_last_ein (a pair).
FIELDS_OF_A_TREE = 16
# By transit times, the last of them from each host are kept.
TRANSIT_TIMES = 1 + SAMPLES

EXCHANGES: dict[str, type[Exchange]] = {"frugal": Frugal, "literal": Literal}


class ClusterTree(Core):
    """All instances at one host, and what the instances share: the cluster and the exchange."""

    name = "cluster-tree"
    number = 3
    summary = "a tree of clusters: one expensive packet to each, and every host repairs"
    assumes = "hosts that can reach each other through other hosts can also reach each other directly"
    beyond = frozenset({"restart-lost"})
    messages = (Copy, Info, Pointer, Declare, Adopt, Detach, Report, Hearsay, Hello)
    Parameters = ClusterTreeParameters
    parameters: ClusterTreeParameters

    def __init__(self, env: Environment, parameters: ClusterTreeParameters) -> None:
        super().__init__(env, parameters)
        self.delivery = self.add("delivery", DeliverOnce)
        self.clusters = KNOWLEDGE[parameters.clusters_from](env, parameters)
        self.cluster = self.clusters.members
        self.trees: dict[str, Tree] = {}
        times = (name for name in parameters.__struct_fields__ if name.endswith("_ms"))
        self._periods_s = {name.removesuffix("_ms").upper(): getattr(parameters, name) / 1000 for name in times}
        """The period of each timer."""
        self.round_trip_s = 0.0
        self.exchange = EXCHANGES[parameters.mode](self)

    @classmethod
    def promise(cls, parameters: ClusterTreeParameters, hosts: int) -> Promise:
        """What the protocol promises, and what it costs at rest."""
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.VALIDITY, Guarantee.AGREEMENT),
            *(Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        exchange = EXCHANGES[parameters.mode]
        # At rest on lossy links, hosts in literal mode lose their parents, and have no reason to attach to others before there is news.
        stands = parameters.mode == "frugal" and parameters.clusters_from == "cost-bit"
        return Promise(
            guarantees=(*guarantees, *((Guarantee.CLUSTER_TREE,) if stands else ())),
            carrier=Carrier.ANYONE,
            patience_ms=exchange.patience_ms(parameters, hosts),
            background_per_second=exchange.background_per_second(parameters, hosts),
            background_per_source=exchange.background_per_source(parameters, hosts),
            retained=(FIELDS_OF_A_HOST + TRANSIT_TIMES * (parameters.clusters_from == "time-stamps")) * hosts + 1,
            retained_per_source=FIELDS_OF_A_TREE * hosts + 8,
        )

    @classmethod
    def check(cls, parameters: ClusterTreeParameters, hosts: tuple[str, ...]) -> None:
        """Refuse a list of clusters that does not fit the hosts, and more hosts than a report can name."""
        if parameters.mode == "frugal" and len(hosts) > MOST_HOSTS:
            raise ValueError(
                f"mode=frugal is for at most {MOST_HOSTS} hosts, so that one packet can name all, not for {len(hosts)}"
            )
        seen: dict[str, None] = {}
        for host in (host for cluster in parameters.static_clusters for host in cluster):
            if host not in hosts:
                raise ValueError(
                    f"clusters={parameters.clusters} names {host!r}, which is not one of the hosts: {', '.join(hosts)}"
                )
            if host in seen:
                raise ValueError(f"clusters={parameters.clusters} names {host} twice: a host is in one cluster")
            seen.setdefault(host)

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """INITIALIZE, for every source that was known before a restart, with the messages that are still kept."""
        self.exchange.start()
        for source in self.delivery.origins():
            self.tree(source)
        for key, payload in stored.items():
            _, source, sequence = key.split("/")
            self.tree(source).payloads[int(sequence)] = payload

    @property
    def unfinished(self) -> int:
        """How far the slowest child is behind in the tree of this host, of those that have said something lately."""
        tree = self.trees.get(self.env.host)
        if tree is None:
            return 0
        since_s = self.env.now() - ANSWERS_WITHIN_S
        heard = [said[0] for said in map(tree.said.get, tree.children) if said is not None and said[1] > since_s]
        return tree.info.highest - min(heard) if heard else 0

    def on_broadcast(self, sequence: int, payload: bytes) -> None:
        """The source sends a new message to its children."""
        self._accept(self.tree(self.env.host), sequence, payload, self.env.host, Purpose.DATA)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Every datagram tells something of the cluster, and that a parent lives; then each kind of message has its procedure."""
        if isinstance(message, Copy):
            tree = self.trees.get(message.origin) or self.tree(message.origin)
            if tree.heard_in != self.env.effects.datagrams:
                self.clusters.heard(sender, message, expensive=expensive)
                self._heard(tree, sender)
            self._propagation(tree, sender, message.sequence, message.payload)
            return
        self.clusters.heard(sender, message, expensive=expensive)
        if isinstance(message, Hello):
            self.exchange.on_hello(sender, message)
            return
        tree = self.tree(message.origin)
        self._heard(tree, sender)
        self._take(tree, sender, message)

    def _heard(self, tree: Tree, sender: str) -> None:
        """A host lives, and what it says is of this tree. What a datagram full of messages tells of its sender it tells once."""
        tree.heard_in = self.env.effects.datagrams
        if sender in tree.silent:
            del tree.silent[sender]
        if sender == tree.parent:
            self.exchange.parent_alive(tree)

    def _take(self, tree: Tree, sender: str, message: Message) -> None:
        match message:
            case Declare():
                self._new_child(tree, sender, message)
            case Hearsay(host=host):
                if message.numbers.highest > tree.highest(host):
                    self._update_map(tree, host, message)
            case Info():
                self._update_map(tree, sender, message)
                self.exchange.on_info(tree, sender, message)
            case Pointer(parent=parent):
                tree.parents[sender] = parent
            case Adopt():
                self._new_parent_acknowledged(tree, sender)
            case Detach():
                tree.children.pop(sender, None)

    def on_timer(self, name: str) -> None:
        """The timers of attachment are the same in both modes, the others belong to the exchange."""
        timer, source = name.split("/")
        match timer:
            case "NP1":
                self.new_parent(self.trees[source])
            case "NP2":
                self.exchange.unanswered(self.trees[source])
            case "PA":
                self.exchange.parent_silent(self.trees[source])
            case _:
                self.exchange.on_timer(timer, source)

    def tree(self, source: str) -> Tree:
        """The instance of a source; INITIALIZE where it is new."""
        tree = self.trees.get(source)
        if tree is None:
            tree = self.trees[source] = Tree(source, self.env.hosts, self.delivery.delivered(source))
            self.exchange.begin(tree)
            if source != self.env.host:
                self.set(tree, "NP1", self.env.random.random())
        return tree

    def leads(self, tree: Tree) -> bool:
        """Whether this host is the leader of its cluster, as far as it knows: its parent is outside, or it has none."""
        return tree.parent not in self.cluster

    def set(self, tree: Tree, timer: str, share: float = 1.0) -> None:
        """Set a timer of a tree to its period, or to a share of it."""
        self.env.set_timer(f"{timer}/{tree.source}", share * self._periods_s[timer])

    def cancel(self, tree: Tree, timer: str) -> None:
        """Forget a timer of a tree."""
        self.env.cancel_timer(f"{timer}/{tree.source}")

    def others(self, *, inside: bool) -> list[str]:
        """The other hosts of the cluster, or all outside it."""
        return [host for host in self.env.peers if (host in self.cluster) == inside]

    def tell(self, hosts: Iterable[str], message: Message) -> None:
        """Send a control message to several hosts."""
        self.env.send_to_each(hosts, message, Purpose.CONTROL)

    def stamp_s(self) -> float:
        """This host's clock if clusters are told by transit times; else 0."""
        return self.env.now() if self.parameters.clusters_from == "time-stamps" else 0.0

    def again_s(self) -> float:
        """How long to wait before the same message is sent to the same host again."""
        return max(self.parameters.resend_ms / 1000, 2 * self.round_trip_s)

    def new_parent(self, tree: Tree) -> None:
        """NEW-PARENT: the attachment procedure of section 4.2."""
        candidate = self._leader_above(tree) if tree.parent in self.cluster else self._better_parent(tree)
        if candidate is not None:
            self.change_parent(tree, candidate)
        elif not tree.parent:
            tree.silent.clear()
        if tree.parent and (candidate or self.exchange.repeats):
            self.declare(tree)
        else:
            self.set(tree, "NP1")

    def declare(self, tree: Tree) -> None:
        """Ask the parent to accept this host as a child, and wait for the answer.

        The wait is twice the longest round trip known, and doubles each time in a row that no host answered.
        """
        self.tell((tree.parent,), Declare(0, tree.source, 0, tree.info.prefix, ranges(tree.info), self.stamp_s()))
        self.exchange.declared(tree)
        tree.asked_s[tree.parent] = self.env.now()
        self.cancel(tree, "NP1")
        after_s = max(self.parameters.np2_ms / 1000, 2 * self.round_trip_s)
        self.env.set_timer(f"NP2/{tree.source}", min(after_s * 2.0 ** min(tree.unanswered, MOST_DOUBLINGS), LONGEST_ROUND_TRIP_S))

    def give_up(self, tree: Tree) -> None:
        """The parent did not answer: try others first."""
        tree.silent.setdefault(tree.parent)
        tree.unanswered += 1
        self.change_parent(tree, "")
        self.new_parent(tree)

    def _better_parent(self, tree: Tree) -> str | None:
        """Cases I and II, options 1 to 3: the best host of the first option that has any."""
        wanted = tree.highest(tree.parent) if tree.parent else tree.info.highest
        leaders = [host for host in self._candidates(tree, self.cluster) if tree.parents.get(host, "") not in self.cluster]
        ahead = [host for host in leaders if tree.lead.get(host, 0) > 0]
        level = [
            host
            for host in leaders
            if host in tree.lead and tree.lead[host] == 0 and tree.order(host) > tree.order(self.env.host)
        ]
        outside = (host for host in self._candidates(tree, tree.map) if host not in self.cluster)
        best = ahead or level or [host for host in outside if tree.highest(host) > wanted]
        return max(best, key=lambda host: (tree.highest(host), tree.order(host)), default=None)

    def _candidates(self, tree: Tree, hosts: Iterable[str]) -> Iterator[str]:
        return (host for host in hosts if host not in tree.silent and host not in {tree.parent, self.env.host})

    def _leader_above(self, tree: Tree) -> str | None:
        """Case III: the ancestor that leads the cluster; empty to break a cycle or to leave an outgrown leader; None to stay."""
        ancestor, seen = tree.parent, {self.env.host: None}
        while ancestor not in seen:
            seen.setdefault(ancestor)
            above = tree.parents.get(ancestor, "")
            if above not in self.cluster:
                if ancestor != tree.parent:
                    return ancestor
                return "" if self._outgrew(tree, ancestor) else None
            ancestor = above
        if ancestor == self.env.host and tree.order(self.env.host) == max(tree.order(host) for host in seen):
            return ""
        return None

    def _outgrew(self, tree: Tree, leader: str) -> bool:
        """Whether the leader has no parent and less than this host. If the source seems to have less, a message has overtaken its INFO."""
        return leader != tree.source and tree.parents.get(leader) == "" and tree.lead.get(leader, 0) < 0

    def change_parent(self, tree: Tree, parent: str) -> None:
        """Change to another parent, or to none."""
        if tree.parent and tree.parent != parent:
            self.tell((tree.parent,), Detach(0, tree.source, 0))
        if parent != tree.parent:
            self.env.trace("parent", source=tree.source, parent=parent, leader=parent not in self.cluster)
        tree.parent = tree.parents[self.env.host] = parent
        tree.heard_in = 0
        self.cancel(tree, "PA")
        self.cancel(tree, "NP2")
        self.exchange.changed_parent(tree)

    def _new_child(self, tree: Tree, child: str, declared: Declare) -> None:
        """NEW-CHILD."""
        tree.children.setdefault(child)
        # The answer goes first: after all the messages that fill gaps, a short queue would drop it again and again.
        self.tell((child,), Adopt(0, tree.source, 0))
        self.exchange.adopted(tree, child)
        self._update_map(tree, child, declared)
        self.fill(tree, (child,))

    def _new_parent_acknowledged(self, tree: Tree, sender: str) -> None:
        """NEW-PARENT-ACKNOWLEDGED. The answer also tells how long a round trip takes."""
        if (asked_s := tree.asked_s.pop(sender, None)) is not None:
            self.round_trip_s = max(self.round_trip_s, min(self.env.now() - asked_s, LONGEST_ROUND_TRIP_S))
        if sender != tree.parent:
            self.tell((sender,), Detach(0, tree.source, 0))
        else:
            self.answered(tree)

    def answered(self, tree: Tree) -> None:
        """The parent has answered."""
        tree.asked_s.pop(tree.parent, None)
        tree.unanswered = 0
        self.cancel(tree, "NP2")
        self.set(tree, "NP1")

    def _update_map(self, tree: Tree, host: str, info: Info) -> None:
        """UPDATE-MAP."""
        tree.map[host] = info.numbers
        tree.lead[host] = tree.map[host].highest - tree.info.highest
        if tree.source == self.env.host:
            tree.said[host] = tree.map[host].highest, self.env.now()

    def _propagation(self, tree: Tree, sender: str, sequence: int, payload: bytes) -> None:
        """PROPAGATION: accept a message above all seen so far only from the parent, and pass new messages on to the neighbours."""
        info = tree.info
        tree.known(sender).add(sequence)
        highest = info.highest
        newest = sequence >= highest
        if newest and sender != tree.parent:
            if sender not in tree.children:
                self.tell((sender,), Detach(0, tree.source, 0))
            return
        if sequence <= highest and sequence in info:
            return
        self._accept(tree, sequence, payload, sender, Purpose.DATA if newest else Purpose.REPAIR)
        if newest and sequence % SAID_EVERY == 0:
            self.tell((tree.parent,), Info(0, tree.source, 0, info.prefix, ranges(info), self.stamp_s()))
        if info.has_gaps:
            self.exchange.on_gap(tree)

    def _accept(self, tree: Tree, sequence: int, payload: bytes, sender: str, purpose: Purpose) -> None:
        """Store a message, deliver it, and pass it on to the neighbours that are not known to have it."""
        tree.payloads[sequence] = payload
        self.env.store(f"message/{tree.source}/{sequence}", payload)
        self.delivery.deliver(tree.source, sequence, payload)
        if sender == tree.parent and not tree.children:
            return
        takers = [
            host
            for host in tree.neighbours
            if host != sender and sequence not in tree.known(host) and (host in tree.children or sequence < tree.highest(host))
        ]
        if takers:
            self._send_copy(tree, takers, Copy(0, tree.source, sequence, payload), purpose)

    def fill(self, tree: Tree, hosts: Iterable[str]) -> None:
        """Send hosts the messages kept here that they are not known to have; those above all that a host has, only to children."""
        for host in hosts:
            known = tree.known(host)
            for sequence in tree.info.lacking(known):
                if sequence in tree.payloads and (sequence < known.highest or host in tree.children):
                    self._send_copy(tree, (host,), Copy(0, tree.source, sequence, tree.payloads[sequence]), Purpose.REPAIR)

    def _send_copy(self, tree: Tree, hosts: Iterable[str], copy: Copy, purpose: Purpose) -> None:
        """Send a message that is kept to hosts, but to none that it was sent to a moment ago."""
        now_s, sent_s = self.env.now(), tree.sent_s.setdefault(copy.sequence, {})
        due = [host for host in hosts if host not in sent_s or not 0 <= now_s - sent_s[host] < self.again_s()]
        sent_s |= dict.fromkeys(due, now_s)
        self.env.send_to_each(due, copy, purpose)
        self.exchange.sent_copies(tree, due)

    def prune(self, tree: Tree, everywhere: int) -> None:
        """Forget the messages that every host has (section 5)."""
        if everywhere <= tree.everywhere:
            return
        for sequence in range(tree.everywhere + 1, min(everywhere, tree.info.highest) + 1):
            tree.sent_s.pop(sequence, None)
            if tree.payloads.pop(sequence, None) is not None:
                self.env.store(f"message/{tree.source}/{sequence}", None)
        tree.everywhere = everywhere
