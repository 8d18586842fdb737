"""A new list: a majority of all hosts promises to refuse older tokens, and whoever asked them makes the first token of a new generation.

Chang and Hwang (the fourth paper) let one host change the list by itself: the predecessor of an owner that failed, the owner that is asked
by a newcomer, whoever leaves. They assume that failures are detected and that the network is never partitioned. Without these assumptions
two hosts may change the list in different ways, so here each change is a new generation of the token, for which a majority is needed, as in
Paxos.

How. A host that wants a new list says which token it knows (`Reform`). A host that knows a newer one sends it that (`Known`), and the
reformation ends: the token is not lost, or there is more to know. A host that knows no newer one promises, on stable storage, to refuse
tokens of lower generations (`Vote`), and says what it has. When all members of the old list have voted, or a majority has and the others
have not answered in several tries, the host makes the new token. The list are the voters: `parts/election.py` elects as soon as a majority
has voted, which would leave all others out of the list.

Why no commit is lost. What was committed was counted or acknowledged by every member of a list. Every list is a majority, so one of the
voters has done so before it voted, and the newest token that any voter knows has it, or has had it. Generations are unique to their hosts:
`round * hosts + place`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.round_trips import FIRST_WAIT_S, RoundTrips
from hostagent.parts.tokens.pieces import Assembly, Piece, cut
from hostagent.parts.tokens.places import HIGHEST, Number, Version

# A host that was refused, or found no majority, tries again after up to this many of its waits.
MOST_BACKOFF: Final = 3.0


Ballot = TypeVar("Ballot")
"""What a host says when it votes."""


class Known(Piece, frozen=True):
    """The newest token that the sender knows of, for a receiver that knows an older one; if that one is its next owner, it now owns it."""


class Vote(Piece, frozen=True):
    """The sender promises to refuse all tokens of lower generations, and says what it has."""


class Reform(Message, frozen=True):
    """The sender wants to form a new list in a generation, from the token that it knows."""

    generation: Number
    known_generation: Number
    known_hop: Number


class Refusal(Message, frozen=True):
    """The sender has promised to refuse all generations below this one."""

    generation: Number


class Numbered(Protocol):
    """A token, as far as lists are concerned."""

    @property
    def generation(self) -> int:
        """That of the token."""

    @property
    def members(self) -> int:
        """The list."""

    @property
    def version(self) -> Version:
        """Generation and hop."""


class Reformation(Part, Generic[Ballot]):
    """One host's part in reformations.

    The owner says which token it knows (`latest`, `encoded`) and what it has (`ballot`), reads what others have (`read_ballot`, None for
    what no host of this run can have sent), is told when this host promises (`on_promise`), makes the new token (`on_votes`), and is told
    if no majority answers (`on_failed`).
    """

    messages = (Reform, Vote, Refusal)

    def __init__(
        self,
        env: Environment,
        longest_s: float,
        tries: int,
        *,
        latest: Callable[[], Numbered],
        encoded: Callable[[], bytes],
        ballot: Callable[[], tuple[Ballot, bytes]],
        read_ballot: Callable[[bytes], Ballot | None],
        on_promise: Callable[[], None],
        on_votes: Callable[[int, Mapping[int, Ballot]], None],
        on_failed: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self._majority = len(env.hosts) // 2 + 1
        self._trips = RoundTrips(longest_s, first_s=min(FIRST_WAIT_S, longest_s))
        self._most_tries = tries
        self._latest, self._encoded = latest, encoded
        self._ballot, self._read_ballot = ballot, read_ballot
        self._on_promise, self._on_votes, self._on_failed = on_promise, on_votes, on_failed
        self._assembly = Assembly()
        self.promised = 0
        """Tokens of lower generations are refused here."""
        self._generation = 0
        """The generation that this host wants to form; 0 if it does not."""
        self._highest = 0
        """The highest generation that another host is known to have promised, or that this host tried in a former life."""
        self._known: Version = 0, 0
        self._awaited = 0
        """The hosts whose votes are waited for, unless they do not answer in several tries."""
        self._votes: dict[int, Ballot] = {}
        self._tries = 0

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the promise. A generation is not tried again: late votes for it were given when this host knew another token."""
        self.promised = stored.get("promised", 0)
        self._highest = stored.get("tried", 0)

    @property
    def is_open(self) -> bool:
        """Whether this host wants to form a list."""
        return bool(self._generation)

    def start(self, suspected: int = 0, wanted: int = 0) -> None:
        """Ask everybody for a new list. Members that are suspected are not waited for; those that want to be members are."""
        hosts, me = len(self.env.hosts), self.env.hosts.index(self.env.host)
        self._highest = max(self._highest, self.promised, self._latest().generation, self._generation)
        self._generation = (self._highest // hosts + 1) * hosts + me
        self.env.store("tried", self._generation)
        self._known = self._latest().version
        self._awaited, self._tries = (self._latest().members | wanted) & ~suspected, 0
        self._votes = {me: self._ballot()[0]}
        self.env.trace("reform", generation=self._generation)
        self._ask()
        self._form_if_ready()

    def abandon(self) -> None:
        """There is a newer token than the one that this host wanted to start from."""
        if self._generation:
            self._generation = 0
            self._votes = {}
            self.env.cancel_timer("ask")

    def promise(self, generation: int) -> None:
        """Refuse tokens of lower generations from now on."""
        if generation > self.promised:
            self.promised = generation
            self.env.store("promised", generation)

    def refuse(self, host: str) -> None:
        """Tell a host that its generation is too low."""
        self.env.send(host, Refusal(EVERYBODY, self.env.host, 0, max(self.promised, self._generation)), Purpose.CONTROL)

    def tell(self, host: str) -> None:
        """Send a host the newest token that is known here."""
        for piece in cut(Known, self.env.host, self._latest().version, self._encoded()):
            self.env.send(host, piece, Purpose.CONTROL)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """Vote, or count a vote."""
        match message:
            case Reform(generation=generation) if generation < HIGHEST:
                self._vote(sender, message)
            case Vote(generation=generation) if generation == self._generation:
                self._count(sender, message)
            case Vote(generation=generation) if generation == self._latest().generation:
                # The vote comes too late for the list.
                self.tell(sender)
            case Refusal(generation=generation) if generation < HIGHEST:
                self._refused(generation)

    def on_timer(self, name: str) -> None:
        """Ask again whoever has not voted, or start anew after a refusal."""
        if name == "ask" and self._generation:
            self._tries += 1
            self._form_if_ready()
            if self._generation and self._tries <= 2 * self._most_tries:
                self._ask()
            elif self._generation:
                self.abandon()
                self._on_failed()
        elif name == "again" and not self._generation and self._highest > self._latest().generation:
            self.start()

    def _ask(self) -> None:
        reform = Reform(EVERYBODY, self.env.host, 0, self._generation, *self._known)
        if self._tries:
            for host in self.env.peers:
                self._trips.forget(host)
            # A queue that is shorter than the burst keeps its beginning: others are to come first each time.
            silent = [host for place, host in enumerate(self.env.hosts) if place not in self._votes]
            for host in self.env.shuffled(silent):
                self.env.send(host, reform, Purpose.CONTROL)
        else:
            to_everybody(self.env, reform, self.env.hosts, self._generation // len(self.env.hosts))
            for host in self.env.peers:
                self._trips.asked(host, self.env.now())
        self.env.set_timer("ask", self._wait_s(self._tries) * self.env.random.uniform(1.0, 1.5))

    def _wait_s(self, tries: int) -> float:
        """How long to wait for votes: as long as those may take that have not voted; if a majority has, as long as that took."""
        has_majority = len(self._votes) >= self._majority
        awaited = [
            host
            for place, host in enumerate(self.env.hosts)
            if self._awaited >> place & 1 and (place in self._votes) == has_majority
        ]
        return max((self._trips.wait_s(host, tries // 2) for host in awaited or self.env.hosts), default=0.0)

    def _vote(self, sender: str, reform: Reform) -> None:
        """Vote for whoever knows the newest token, once in each generation; a vote may be asked for again."""
        if self._latest().version > (reform.known_generation, reform.known_hop):
            self.tell(sender)
        elif reform.generation > max(self.promised, self._generation) or reform.generation == self.promised:
            if reform.generation > self.promised:
                self.promise(reform.generation)
                self.abandon()
                self._on_promise()
            for piece in cut(Vote, self.env.host, (reform.generation, 0), self._ballot()[1]):
                self.env.send(sender, piece, Purpose.CONTROL)
        else:
            self.refuse(sender)

    def _count(self, sender: str, piece: Piece) -> None:
        data = self._assembly.take(sender, piece)
        ballot = self._read_ballot(data) if data is not None else None
        if ballot is None:
            return
        self._trips.answered(sender, self.env.now())
        self._votes[self.env.hosts.index(sender)] = ballot
        self._form_if_ready()
        if self._generation and len(self._votes) >= self._majority:
            self.env.set_timer("ask", self._wait_s(self._tries))

    def _refused(self, generation: int) -> None:
        """Somebody has promised a higher generation: try again with a higher one, unless that one comes about first."""
        self._highest = max(self._highest, generation)
        if self._generation and generation > self._generation:
            self.abandon()
            self.env.set_timer("again", self._wait_s(1) * self.env.random.uniform(1.0, MOST_BACKOFF))

    def _form_if_ready(self) -> None:
        if not self._generation or len(self._votes) < self._majority:
            return
        silent = sum(1 << place for place in range(len(self.env.hosts)) if place not in self._votes)
        if silent & self._awaited and self._tries < self._most_tries:
            return
        generation, votes = self._generation, self._votes
        self.abandon()
        self.promise(generation)
        self._on_votes(generation, votes)


def to_everybody(env: Environment, message: Message, hosts: Collection[str], turn: int) -> None:
    """Send to the view of everybody's group, and to those of `hosts` that are not in it; `turn` as in `multicast`."""
    env.multicast(EVERYBODY, message, Purpose.CONTROL, turn)
    for host in hosts:
        if host != env.host and host not in env.groups[EVERYBODY]:
            env.send(host, message, Purpose.CONTROL)
