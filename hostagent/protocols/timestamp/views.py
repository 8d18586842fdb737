"""Views of the timestamp protocol: a majority takes hosts that seem dead out, and takes them in again, without breaking the order.

A view names the hosts that are waited for. The first one has all hosts; a new one is made by a host that a majority has elected for it
(`hostagent.parts.election`), when the failure detector of somebody (`hostagent.parts.detector`) suspects a member, or trusts a host that
is none. A host that has voted says nothing of its clock before it knows the new view; so if nobody makes that view, there must be another,
also when nobody is suspected any more. With its vote it says how many messages of each source it has, in the last view of which it had
everything (`standing.py`). The highest of these numbers, of the voters with the newest such view, are the *cut*: messages beyond it are
void, and their sources stamp and send them anew in the next view that has them as members.

Why nothing that was delivered is void, also at a host that is taken out wrongly: in this mode a message is delivered only when all
members of the view have it, and everything up to the cut. They are a majority, so one of them is among the voters, says so, and the
message is in the cut. Why a host that is taken out delivers nothing out of order: it needs time stamps of all members of its view, and
those that have voted give none. What it can still deliver, all had stamped, and is in the cut. Why a host that is taken in again sends
nothing too early: its clock is set beyond those of the voters first. A host that is of an older view than the newest among the voters may
have messages that were void in between; it lays aside all that it has not delivered, and asks the others for what is in the cut, also for
messages of its own: those have the time stamps with which the others deliver them, so nothing is sent anew before they are here. Hosts
send each other messages only within a view, so nothing void comes back. Nothing is delivered in a view before everything up to the cut is
here: nobody waits for the clocks of sources that were taken out.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, host_set
from hostagent.parts.detector import Detector, Heartbeat
from hostagent.parts.election import Election, Refusal, Subject
from hostagent.parts.round_trips import RoundTrips
from hostagent.protocols.timestamp.messages import Have, Install
from hostagent.protocols.timestamp.parameters import TimestampParameters

if TYPE_CHECKING:
    from hostagent.protocols.timestamp.protocol import Timestamp

# A host that is not the first to see that the view is wrong leaves it to the others for so many periods.
REVIEWS = 3


class _State(msgspec.Struct, frozen=True, array_like=True):
    """What a voter says."""

    view: int
    clock: int
    have: tuple[int, ...]


class Views(Part):
    """Who is waited for, and how that changes. `core` is this host."""

    messages = (*Detector.messages, *Election.messages, Install)

    def __init__(self, env: Environment, parameters: TimestampParameters, core: "Timestamp") -> None:
        super().__init__(env)
        self._core = core
        self._period_s = parameters.period_ms / 1000
        self.detector = self.add(
            "detector", lambda own: Detector(own, parameters, lambda: Heartbeat(0, env.host, 0, 0), lambda _: None)
        )
        trips = RoundTrips(parameters.longest_ms / 1000, parameters.retry_ms / 1000)
        self.election = self.add(
            "election",
            lambda own: Election(
                own,
                trips,
                state=self._state,
                on_elected=self._make,
                is_content=lambda _: self._wanted() == self._core.members and not self.is_frozen,
            ),
        )
        self._wrong = 0
        """For how many periods the view has not been what it should be."""
        self.installed: Install | None = None

    def on_start(self, stored: Any) -> None:
        """Go on with the view that was stored."""
        if "view" in stored:
            self.installed = Install(*stored["view"])
            self._core.restore_view(self.installed)
        self.env.set_timer("review", self._period_s)

    @property
    def is_frozen(self) -> bool:
        """Whether this host has voted for a view that it does not know yet."""
        return self.election.epoch(self.election.role) > self._core.view

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A new view, a step of an election, or a heartbeat."""
        if isinstance(message, Install):
            self._install(message)
        elif isinstance(message, Heartbeat):
            return
        else:
            self.election.on_message(sender, message, expensive)
            if isinstance(message, Refusal) and message.voted > self._core.view:
                # The sender may know a view that this host does not: who hears of an older view tells its own.
                self.env.send(sender, self._core.stamp(asks=True), Purpose.CONTROL)

    def on_timer(self, name: str) -> None:
        """Look whether the right hosts are waited for, and whether a view that this host has voted for was made."""
        if name != "review":
            super().on_timer(name)
        wanted = self._wanted()
        if wanted == self._core.members:
            # Whoever stood for a suspicion that is over would be refused for ever.
            self.election.settled(self.election.role, self._core.view, self.env.host)
        is_wrong = (wanted != self._core.members or self.is_frozen) and 2 * len(wanted) > len(self.env.hosts)
        self._wrong = self._wrong + 1 if is_wrong else 0
        if is_wrong and (wanted[0] == self.env.host or self._wrong > REVIEWS):
            self._wrong = 0
            self.election.stand(self.election.role)
        self.env.set_timer("review", self._period_s)

    def tell(self, host: str) -> None:
        """Another host has an older view."""
        if self.installed is not None:
            self.env.send(host, self.installed, Purpose.CONTROL)

    def _wanted(self) -> tuple[str, ...]:
        return tuple(host for host in self.env.hosts if host not in self.detector.suspected)

    def _state(self, _subject: Subject) -> bytes:
        view, have = self._core.standing.vote()
        return msgspec.msgpack.encode(_State(view, self._core.clock, have))

    def _make(self, _subject: Subject, epoch: int, states: dict[str, bytes]) -> None:
        """This host was elected: make the view, of those that voted and those that it trusts."""
        try:
            told = {host: msgspec.msgpack.decode(state, type=_State) for host, state in states.items()}
        except msgspec.MsgspecError:
            # No host of this protocol says that; there will be another election.
            return
        if any(len(state.have) != len(self.env.hosts) for state in told.values()):
            return
        base = max(state.view for state in told.values())
        newest = [state.have for state in told.values() if state.view == base]
        cut: Have = tuple(max(numbers) for numbers in zip(*newest, strict=True))
        wanted = self._wanted()
        members = host_set([host for host in self.env.hosts if host in wanted or host in told], self.env.hosts)
        clock = max(state.clock for state in told.values())
        view = Install(EVERYBODY, self.env.host, 0, epoch, base, members, cut, clock)
        self._install(view)
        self.env.multicast(EVERYBODY, view, Purpose.CONTROL)

    def _install(self, view: Install) -> None:
        """Install a view, unless this host knows it, or has voted for a later one."""
        if view.view <= self._core.view or view.view < self.election.epoch(self.election.role):
            return
        self.installed = view
        self.env.store("view", msgspec.structs.astuple(view))
        self.election.settled(self.election.role, view.view, view.origin)
        self._wrong = 0
        self._core.enter(view)
