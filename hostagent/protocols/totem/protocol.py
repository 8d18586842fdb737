"""Totem: a token goes round a ring of hosts, its holder sends, and all deliver in the order of the numbers that the token gives.

Source: Amir, Moser, Melliar-Smith, Agarwal, Ciarfella, "The Totem single-ring ordering and membership protocol" (ACM TOCS, 1995), which
the fourth paper compares itself with. `rotation` has the token, `gathering` the agreement on members, `recovery` what is left of an old
ring.

Model. Datagrams are lost, duplicated, reordered and delayed; the network splits and heals; hosts crash, for good or to restart with their
storage, come late and leave.

How. A host starts by looking for others (gather). Those that hear each other agree on a ring (commit), tell each other what they have of
their last rings (recovery), and then pass the token round (operational). Only the holder sends; numbers, requests for what was lost and
flow control travel in the token. When the token is lost for good, or a host outside the ring is heard of, all gather again.

Guarantees, those of extended virtual synchrony (for rings of up to 50 members: `recovery`). One order, strictly and for all groups: a
message has a place in one ring, the messages of a ring are delivered in the order of their numbers, and each host goes through rings of
ever higher codes; so no two hosts ever deliver two messages in different orders, in whatever parts of the network they were. No creation,
no duplication. View agreement: hosts that go from one view to the same next one deliver the same messages in between. With `delivery=safe`
a host delivers a message when all members of its configuration have received it. There is one token in a ring; its generation is the code
of the ring.

What is not promised. Parts of a network that was split each go on, and after a merge nobody gets what was sent in the other part; so
neither convergence nor progress can hold for all messages. They hold for what is sent in the last view: *progress in the last view* says
that hosts that are connected come to one view and deliver what is sent in it. Nor is a message always delivered in the view in which the
application handed it over (sending view): what waits at its source when the ring changes is sent on the next ring, to those of its
destinations that are in it.

Restart. A host stores its own messages until it has delivered them, which of them were sent, and the number of its last ring; nothing of
others. When it restarts it comes from a ring of its own: what it had sent and not delivered it delivers in a transitional configuration
with itself alone, as extended virtual synchrony asks, and what was never sent waits for the next ring.

Messages. On a ring of n hosts with M messages in a rotation, (n - 1) + n/M datagrams per message: `Data` to each other member (data;
repair when it was asked for) and `Token` to the next (control). On a network that multicasts, 1 + n/M. A host that sends alone keeps the
token, so that a rotation may serve many messages; an idle ring sends `idle_packets_per_second`. `Wake` asks for a token that
somebody keeps. Gathering: `Join` to every host in each round of proposals, `Commit` 2n times. A `Probe` each `probe_ms` to each host
outside the ring.

Decisions. The paper assumes a broadcast medium on which foreign rings are overheard; `Probe` replaces that. It retransmits the token when
the next member is silent; here any member does, and the token is revived where it was lost. Reports in the commit token say also what each
member has beyond its first gap, as far as there is room, so a message is sent again by one member and not by all. A message is for the
members that its group had at its source when the application handed it over, as the log says, so a member that came later does not deliver
it. Agreed delivery is the default: it costs no more than half a rotation, and is the level of the protocols that this one is compared with.
Loss of storage is not survived: a host that forgets the number of its last ring might use it again.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, LISTED, Destination, Message, Purpose, host_set, hosts_in
from hostagent.contract.promises import Carrier, Guarantee, Order, Promise, Scope, Strength
from hostagent.contract.wire import ROOM_IN_PACK
from hostagent.protocols.totem.gathering import Gathering
from hostagent.protocols.totem.messages import MOST_HOSTS, Commit, Data, Join, Probe, Report, Token, Wake
from hostagent.protocols.totem.parameters import TotemParameters
from hostagent.protocols.totem.recovery import Recovery
from hostagent.protocols.totem.ring import Ring
from hostagent.protocols.totem.rotation import Rotation

OVERHEAD_BYTES: Final = 15
"""What a message takes at most in a pack, after the one before it, beside its payload."""


class Waiting(NamedTuple):
    """A message of this host that was not sent yet."""

    sequence: int
    payload: bytes
    to: Destination


class Totem(Core):
    """One host: its ring, or how it comes to its next ring."""

    name = "totem"
    number = 16
    summary = "a token goes round a ring and its holder sends: agreed or safe delivery in one order, rings split and merge"
    assumes = "hosts that crash keep their storage; a message reaches the hosts that are in the ring of its sender"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (Data, *Rotation.messages, *Gathering.messages, Probe)
    waits = ("longest_wait_ms",)
    Parameters = TotemParameters
    parameters: TotemParameters

    def __init__(self, env: Environment, parameters: TotemParameters) -> None:
        super().__init__(env, parameters)
        self.rotation = self.add("rotation", lambda own: Rotation(own, parameters, self))
        self.gathering = self.add(
            "gathering",
            lambda own: Gathering(own, self._wait_s, self._report, self._on_formed, self.rotation.make_token, self._gather),
        )
        self.old = Ring(0, ())
        """The last ring whose view was installed here; a host that has started comes from a ring of nobody."""
        self.recovery: Recovery | None = None
        """Between the commit of a ring and the installation of its view."""
        self.is_operational = False
        self._groups = dict(env.groups)
        """The members of each group, whether they are in the ring or not."""
        self.queue: deque[Waiting] = deque()
        self._queued_bytes = 0
        self._again: deque[int] = deque()
        """The numbers of the messages of the last ring that this host has to send again."""
        self._visits = 0
        self._is_needless = False
        """Whether no comrades have anything to send again."""
        self._install_at: int | None = None
        """When all have everything up to this number, the view is installed."""

    @classmethod
    def promise(cls, parameters: TotemParameters, hosts: int) -> Promise:
        """One strict order, whatever happens, and what extended virtual synchrony says of views.

        An idle ring passes the token round once in `idle_s`, or twice where tokens are lost.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.ACYCLIC_ORDER),
            *(Guarantee.VIEW_AGREEMENT, Guarantee.VIEW_PROGRESS),
            *((Guarantee.SAFE,) if parameters.delivery == "safe" else ()),
            *(Guarantee.ONE_TOKEN, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(
            guarantees=guarantees,
            orders=(Order(Scope.MULTIPLE_GROUP, Strength.STRICT),),
            token_kind=cls.messages.index(Token),
            carrier=Carrier.ANYONE,
            patience_ms=parameters.patience_ms(hosts),
            background_per_second=2 / parameters.idle_s(hosts),
            retained=8 * hosts + parameters.window_size,
        )

    @classmethod
    def check(cls, parameters: TotemParameters, hosts: tuple[str, ...]) -> None:
        """Refuse parameters that contradict each other, and rings whose commit token would not fit into a datagram."""
        parameters.check()
        if len(hosts) > MOST_HOSTS:
            raise ValueError(f"{len(hosts)} hosts are too many: a ring has at most {MOST_HOSTS} members")

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Look for others. What was sent before a crash and not delivered here is delivered before the next ring; the rest waits."""
        sent, own = stored.get("sent", 0), list[Data]()
        kept = {int(key.removeprefix("message/")): value for key, value in stored.items() if key.startswith("message/")}
        for sequence, (payload, group, hosts, nth) in sorted(kept.items()):
            to = Destination(group, hosts_in(hosts, self.env.hosts), nth)
            if sequence > sent:
                self._enqueue(Waiting(sequence, payload, to))
            else:
                own.append(Data(group, self.env.host, sequence, 0, len(own) + 1, payload, nth, hosts))
        self.old = Ring(self.gathering.new_code(), (), own)
        self.gathering.begin(())

    @property
    def unfinished(self) -> int:
        """The messages that wait for the token."""
        return len(self.queue)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Keep the message until it is delivered here, and send it when the token is here."""
        hosts = host_set(to.hosts, self.env.hosts)
        self.env.store(f"message/{sequence}", (payload, to.group, hosts, to.nth))
        self._enqueue(Waiting(sequence, payload, to))
        if self.is_operational:
            self.rotation.nudge()

    def _enqueue(self, waiting: Waiting) -> None:
        self.queue.append(waiting)
        self._queued_bytes += len(waiting.payload) + OVERHEAD_BYTES

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Hand a message to the ring that it belongs to."""
        match message:
            case Data():
                self._on_data(sender, message)
            case Token() | Wake() if self._is_of_ring(message.ring):
                self.gathering.confirmed()
                self.rotation.on_message(sender, message, expensive)
            case Token() | Wake() | Probe():
                self._on_foreign(sender, message.ring)
            case Join() if self._is_news(message):
                self._gather(sender)
                self.gathering.on_message(sender, message, expensive)
            case Join() | Commit():
                self.gathering.on_message(sender, message, expensive)

    def on_timer(self, name: str) -> None:
        """Look for hosts that are not in the ring."""
        if name != "probe":
            super().on_timer(name)
        if self.is_operational and self.rotation.ring.members[0] == self.env.host:
            for host in self.env.shuffled(self.env.peers):
                if host not in self.rotation.ring.members:
                    self.env.send(host, Probe(EVERYBODY, self.env.host, 0, self.rotation.ring.code), Purpose.CONTROL)
            self.env.set_timer("probe", self.parameters.probe_ms / 1000)

    # --- which ring a message is about

    def _is_of_ring(self, code: int) -> bool:
        return code == self.rotation.ring.code and (self.is_operational or self.recovery is not None)

    def _on_data(self, sender: str, data: Data) -> None:
        """A message of the ring; of the last ring, as long as no commit token says what this host has of it; or of another."""
        if self._is_of_ring(data.ring):
            self.gathering.confirmed()
            if self.recovery is not None and data.old_ring == self.old.code:
                self._keep(data.old_number, replace(data, old_ring=0, old_number=0))
                if data.old_number in self._again:
                    # It was in no report, and a comrade was faster.
                    self._again.remove(data.old_number)
            if self.rotation.on_data(sender, data) and not data.old_ring:
                self._mark(data)
        elif data.ring == self.old.code and self.gathering.is_gathering:
            self._keep(data.number, data)
        else:
            self._on_foreign(sender, data.ring)

    def _on_foreign(self, sender: str, code: int) -> None:
        """Somebody is in another ring: if it is not only an old message of a member, look for a ring with that host."""
        ring = self.rotation.ring
        if self.is_operational and (sender not in ring.members or code > ring.code):
            self._gather(sender)

    def _is_news(self, join: Join) -> bool:
        """Whether a host makes a proposal while this host does not gather, and it is none from before."""
        return not self.gathering.is_gathering and self.gathering.is_news(join, or_foreign=self.is_operational)

    # --- from one ring to the next

    def lost(self) -> None:
        """The token is lost for good, and with it the ring."""
        self._gather()

    def _gather(self, *others: str) -> None:
        """Look for the members of the next ring: those of the last one, those of one that was being formed, and these."""
        if self.is_operational:
            self.old = self.rotation.ring
        elif self.recovery is not None and self._is_recovered(self.rotation.ring.aru):
            self.old.obliged |= self.recovery.obliged
        known = (*self.old.members, *self.gathering.members, *others)
        self.is_operational, self.recovery = False, None
        self._again.clear()
        self.rotation.stop()
        self.env.cancel_timer("probe")
        self.gathering.begin(known)

    def _wait_s(self, hosts: frozenset[str]) -> float:
        """How long a rotation may take, if it was seen with all these hosts; of others nothing is known."""
        first_s = self.parameters.first_wait_ms / 1000
        return self.rotation.wait_s if hosts <= set(self.old.members) else max(self.rotation.wait_s, first_s)

    def _report(self, size: int) -> Report:
        return self.old.report(size, self.env.hosts)

    def _on_formed(self, code: int, reports: dict[str, Report]) -> None:
        """All reports are there: send again what comrades lack, on the new ring."""
        self.recovery = Recovery(self.old, reports, self.env.hosts)
        self._again = deque(self.recovery.owed_by(self.env.host))
        self._visits, self._install_at = 0, None
        self._is_needless = Recovery.is_needless(reports)
        self.rotation.begin(Ring(code, tuple(reports)), is_known=set(reports) <= set(self.old.members))

    def _recover(self, token: Token) -> None:
        """Install the view when nobody has had anything to send again for a whole rotation, and all have what was sent.

        If the reports say that nobody lacks anything, the first token will do: all members have seen the reports when it comes.
        """
        ring = self.rotation.ring
        self._visits += 1
        if self._again or token.recovering:
            self._install_at = None
        elif self._is_recovered(ring.safe):
            self._install()
        elif self._visits > 1:
            # On the first visit some may not have said yet how much they have to send again.
            self._install_at = token.seq if self._install_at is None else self._install_at

    def _is_recovered(self, up_to: int) -> bool:
        """Whether what had to be sent again, if anything, is among the messages up to this number of the ring."""
        return self._is_needless or (self._install_at is not None and up_to >= self._install_at)

    def _install(self) -> None:
        """Deliver what is left of the last ring as extended virtual synchrony asks, and begin with the new one."""
        recovery, ring = self.recovery, self.rotation.ring
        assert recovery is not None, "a view follows a recovery"
        view = ring.code * (len(self.env.hosts) + 1)
        for data in recovery.in_old(self.parameters.delivery):
            self._hand_over(data)
        if recovery.comrades != self.old.members:
            place = self.env.hosts.index(recovery.comrades[0])
            self._install_view(recovery.comrades, view + 1 + place)
        for data in recovery.in_transitional():
            self._hand_over(data)
        self._install_view(ring.members, view)
        self.is_operational, self.recovery, self.old = True, None, ring
        self.arrived()
        if ring.members != self.env.hosts:
            self.env.set_timer("probe", self.parameters.probe_ms / 1000)

    def _install_view(self, members: tuple[str, ...], view: int) -> None:
        """From now on every group has those of its members that are in the ring. A group that has none there stays as it was."""
        for group in self.env.groups:
            here = [host for host in self._members_of(group) if host in members]
            if here:
                self.env.install(group, here, view)

    def _members_of(self, group: int) -> tuple[str, ...]:
        """The members of a group, whether they are in the ring or not. One that is made during the run is known from its first use on."""
        return self._groups.setdefault(group, self.env.groups.get(group, ()))

    # --- what the rotation asks for

    def waiting(self) -> int:
        """How many messages wait to be sent on the ring."""
        return len(self.queue) if self.is_operational else len(self._again)

    def filled(self) -> float:
        """Which part of a datagram the waiting messages fill; 1 if one more like the last would not fit."""
        one_more = len(self.queue[-1].payload) + OVERHEAD_BYTES if self.queue else 0
        return 1.0 if self._queued_bytes + one_more > ROOM_IN_PACK else self._queued_bytes / ROOM_IN_PACK

    def take(self, ring: int, number: int) -> Data:
        """The next message that waits, with its number on the ring."""
        if not self.is_operational:
            old_number = self._again.popleft()
            data = self.old.messages[old_number]
            return replace(data, ring=ring, number=number, old_ring=self.old.code, old_number=old_number)
        sequence, payload, to = self.queue.popleft()
        self._queued_bytes -= len(payload) + OVERHEAD_BYTES
        self.env.store("sent", sequence)
        here = {host for host in self._members_of(to.group) if host in self.rotation.ring.members}
        is_for_all = to.group != LISTED and here <= set(to.hosts)
        hosts = b"" if is_for_all else host_set(to.hosts, self.env.hosts)
        return Data(to.group, self.env.host, sequence, ring, number, payload, to.nth, hosts)

    def recovering(self) -> int:
        """How many messages of the last ring wait to be sent again."""
        return len(self._again)

    def visited(self, token: Token) -> None:
        """The token is here: deliver what is safe, forget what all have; or see whether recovery has come to its end.

        The last message that all have is marked as committed.
        """
        if self.is_operational:
            self.arrived()
            done = reversed(self.rotation.ring.forget())
            last = next((data for data in done if not data.old_ring and self.env.host in self._receivers(data)), None)
            if last is not None:
                self.env.commit(last.origin, last.sequence)
        else:
            self._recover(token)

    def arrived(self) -> None:
        """Deliver the messages of the ring that are in order, and for safe delivery those that all members have."""
        ring = self.rotation.ring
        if self.is_operational:
            for data in ring.next_up_to(ring.aru if self.parameters.delivery == "agreed" else ring.safe):
                self._hand_over(data)

    # --- messages

    def _keep(self, number: int, data: Data) -> None:
        """Add a message to those of the last ring. It is delivered at once if it is in order and no commit token is under way."""
        if self.old.add(number, data):
            self._mark(data)
            if self.gathering.is_gathering and self.parameters.delivery == "agreed":
                for one in self.old.next_up_to(self.old.aru):
                    self._hand_over(one)

    def _mark(self, data: Data) -> None:
        """Log that a message has arrived, which only the promise of safe delivery needs."""
        if self.parameters.delivery == "safe":
            self.env.receive(data.origin, data.sequence)

    def _hand_over(self, data: Data) -> None:
        """Deliver a message that is for this host, unless it is one that was sent again for others in a recovery."""
        if data.old_ring:
            return
        if self.env.host in self._receivers(data):
            self.env.deliver(data.origin, data.sequence, data.payload)
        if data.origin == self.env.host:
            self.env.store(f"message/{data.sequence}", None)

    def _receivers(self, data: Data) -> tuple[str, ...]:
        if data.to:
            return hosts_in(data.to, self.env.hosts)
        # No host of this run sends to a group that does not exist, but a forged datagram may name one.
        return self._members_of(data.group) if data.group in self.env.groups else ()
