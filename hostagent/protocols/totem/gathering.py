"""Membership: hosts agree on the members of the next ring, and a commit token goes round it twice.

Gather. A host sends `Join` with the hosts that it knows of (`proc`) and those of them that it has given up (`fail`), to everybody, and
repeats it, to one host after another: queues on the way may be shorter than a burst to all hosts. Whoever learns of more hosts, or of
hosts that another has given up, takes that over and says so. When all hosts in `proc` that are not in `fail` have sent the same two sets,
they agree. A host that does not agree in time is put into `fail`. Both sets start anew with each gathering, so nobody is given up for
ever.

Commit. The first of the members in the order of all hosts is the representative. It gives the ring a number higher than all that any
member has known, and sends a commit token round. On its first round each member adds a report of its last ring and stores the number; on
its second round each member learns all reports, and is in recovery from then on. When the token is back for the second time, the
representative makes the first token of the ring. A commit token that does not go on is sent again; after `TRIES` times the host gathers
anew.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose, host_set, hosts_in
from hostagent.parts.links import JITTER
from hostagent.protocols.totem.messages import MOST_RINGS, Commit, Join, Report
from hostagent.protocols.totem.parameters import JOINS, TRIES

LEARN_S: Final = 0.01
"""Whoever learns of other hosts waits this long before it says so: it may learn of several in a row, and all are told each time."""
AGAIN_S: Final = 0.2
"""Proposals are repeated at least this often, as the default of `first_wait_ms`. The paper has two time-outs as well, one to repeat a
proposal and a longer one to give hosts up: a host that has seen long rotations is in no hurry to give up others, but others that have not
would give it up if it repeated its proposals as seldom."""

Formed = Callable[[int, dict[str, Report]], None]
"""Called with the code of a ring and the reports of its members, in the order of the ring."""


class Gathering(Part):
    """How one host comes to its next ring. `wait_s` says how long answers of hosts may take, `report` what this host brings along."""

    messages = (Join, Commit)

    def __init__(
        self,
        env: Environment,
        wait_s: Callable[[frozenset[str]], float],
        report: Callable[[int], Report],
        on_formed: Formed,
        on_complete: Callable[[], None],
        on_failed: Callable[[], None],
    ) -> None:
        super().__init__(env)
        self._wait_s = wait_s
        self._report = report
        self._on_formed = on_formed
        self._on_complete = on_complete
        self._on_failed = on_failed
        self.number = 0
        """The highest number of a ring that this host has known; on stable storage."""
        self._proc: frozenset[str] = frozenset()
        self._fail: frozenset[str] = frozenset()
        self._agreeing: frozenset[str] = frozenset()
        self._joins = 0
        """How often these sets were proposed."""
        self._turn = 0
        self._untold: deque[str] = deque()
        """The hosts that this repetition of the proposal is still to be sent to."""
        self._is_settled = False
        """Whether hosts that are far away have had time to be heard."""
        self.is_gathering = False
        self._commit: Commit | None = None
        """The commit token, as this host has passed it on."""
        self._tries = 0

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the number of the last ring."""
        self.number = stored.get("number", 0)

    def new_code(self) -> int:
        """The code of a ring that never was, with this host as its representative."""
        self.note(self.number + 1)
        return self.number * len(self.env.hosts) + self.env.hosts.index(self.env.host)

    def note(self, number: int) -> None:
        """A ring of this number is known."""
        if self.number < number < MOST_RINGS:
            self.number = number
            self.env.store("number", number)

    def begin(self, others: Iterable[str]) -> None:
        """Look for the members of a new ring: this host, these, and whoever answers."""
        self._proc, self._fail = frozenset((self.env.host, *others)), frozenset()
        self.is_gathering, self._commit = True, None
        self._is_settled = len(self._proc) > 1
        if not self._is_settled:
            self.env.set_timer("settle", self._wait_s(self._proc))
        self._propose()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A proposal while this host gathers, or a commit token."""
        match message:
            case Join() if self.is_gathering:
                self._on_join(sender, message)
            case Commit():
                self._on_commit(message)

    def on_timer(self, name: str) -> None:
        """Propose again, or pass the commit token on again."""
        match name:
            case "join":
                self._propose_again()
            case "tell":
                self._tell_next()
            case "settle":
                self._is_settled = True
                self._form_if_agreed()
            case "commit":
                self._commit_again()

    def is_news(self, join: Join, *, or_foreign: bool) -> bool:
        """Whether a proposal that comes while this host does not gather is a reason to gather.

        A member of the ring has left it if its proposal was made after the commit. Another host, if `or_foreign`, wants to be in the ring,
        unless it has given up a member: then it will have a ring of its own first, and be found by its probes. Whoever took its proposal
        up would give up that member too, which would do the same in turn, and rings without one of them would form for ever.
        """
        if join.origin in self.members:
            return self._commit is not None and join.number >= self._commit.ring // len(self.env.hosts)
        return or_foreign and set(self.members).isdisjoint(hosts_in(join.fail, self.env.hosts))

    @property
    def members(self) -> tuple[str, ...]:
        """The members of the ring whose commit token this host had last."""
        return hosts_in(self._commit.members, self.env.hosts) if self._commit is not None else ()

    # --- gather

    def _propose(self, after_s: float = 0.0) -> None:
        """Propose these sets from now on, or after a while, in which more may be learnt."""
        self._agreeing, self._joins = frozenset((self.env.host,)), 0
        for name in ("tell", "commit"):
            self.env.cancel_timer(name)
        if after_s:
            self.env.set_timer("join", after_s)
        else:
            self._propose_again()

    def _propose_again(self) -> None:
        """Propose the same sets again, until the others have had time enough to agree."""
        self._joins += 1
        if self._joins * self._again_s > JOINS * self._wait_s(self._proc) or not self.env.peers:
            self._decide()
            return
        self._tell_everybody()
        self.env.set_timer("join", self._again_s * self.env.random.uniform(1, JITTER))

    @property
    def _again_s(self) -> float:
        """Time between two repetitions of a proposal."""
        return min(self._wait_s(self._proc), AGAIN_S)

    def _decide(self) -> None:
        """Give up those who do not agree. If all have agreed and yet no commit token comes, begin anew."""
        silent = self._proc - self._fail - self._agreeing
        self._fail = self._fail | silent if silent else frozenset()
        if self._proc - self._fail == {self.env.host}:
            self._form()
        else:
            self._propose()

    def _tell_everybody(self) -> None:
        """Send a new proposal to all at once, and a repeated one to one host after another; each time another one is the first.

        Where queues are short, most of a burst is lost. On a network that multicasts, the members of the view are told together.
        """
        self._turn += 1
        is_new, view = self._joins == 1, self.env.groups[EVERYBODY]
        together = view if is_new or self.env.multicasts else ()
        if together:
            self.env.multicast(EVERYBODY, self._proposal(), Purpose.CONTROL, turn=self._turn)
        self._untold = deque(host for host in self.env.peers if host not in together)
        self._untold.rotate(-self._turn)
        while is_new and self._untold:
            self.env.send(self._untold.popleft(), self._proposal(), Purpose.CONTROL)
        self._tell_next()

    def _tell_next(self) -> None:
        if self._untold:
            self.env.send(self._untold.popleft(), self._proposal(), Purpose.CONTROL)
            self.env.set_timer("tell", self._again_s / len(self.env.peers))

    def _proposal(self) -> Join:
        hosts = self.env.hosts
        return Join(EVERYBODY, self.env.host, 0, host_set(self._proc, hosts), host_set(self._fail, hosts), self.number)

    def _on_join(self, sender: str, join: Join) -> None:
        """The paper's rules for the sets of another host."""
        self.note(join.number)
        proc, fail = frozenset(hosts_in(join.proc, self.env.hosts)), frozenset(hosts_in(join.fail, self.env.hosts))
        if (proc, fail) == (self._proc, self._fail):
            self._agreeing |= {sender}
            self._form_if_agreed()
        elif sender not in self._fail and not (proc <= self._proc and fail <= self._fail):
            self._proc |= proc | {sender}
            self._fail |= {sender} if self.env.host in fail else fail
            self._propose(LEARN_S)

    def _form_if_agreed(self) -> None:
        """If all candidates agree and this host is the first of them, the representative: form the ring."""
        candidates = self._proc - self._fail
        first = next(host for host in self.env.hosts if host in candidates)
        if (
            self.is_gathering
            and self._is_settled
            and first == self.env.host
            and len(candidates) > 1
            and self._agreeing >= candidates
        ):
            self._form()

    # --- commit

    def _form(self) -> None:
        """As the representative, make a commit token."""
        self._accept(Commit(EVERYBODY, self.env.host, 0, self.new_code(), self._candidates(), 0, ()))

    def _candidates(self) -> bytes:
        return host_set(self._proc - self._fail, self.env.hosts)

    def _on_commit(self, commit: Commit) -> None:
        """Take a commit token that this host has not had yet."""
        number, before = commit.ring // len(self.env.hosts), self._commit
        if before is not None and (commit.ring, commit.members) == (before.ring, before.members):
            if commit.hop > before.hop:
                self._accept(commit)
        elif self.is_gathering and self.number < number < MOST_RINGS and commit.members == self._candidates():
            self._accept(commit)

    def _accept(self, commit: Commit) -> None:
        """Add a report on the first round, and learn all reports on the second; then pass the token on."""
        members = hosts_in(commit.members, self.env.hosts)
        size, hop = len(members), commit.hop
        place, own = members.index(self.env.host), self._report(size)
        is_right = hop % size == place and len(commit.reports) == min(hop, size) and hop <= 2 * size
        if not is_right or (hop >= size and commit.reports[place][0] != own[0]):
            # No member has sent this, or it has a report of this host from before it lost its storage.
            return
        self.note(commit.ring // len(self.env.hosts))
        self.is_gathering, self._tries = False, 0
        for name in ("join", "tell"):
            self.env.cancel_timer(name)
        if hop < size:
            commit = replace(commit, reports=(*commit.reports, own))
        self._commit = replace(commit, origin=self.env.host, hop=hop + 1)
        if hop == 2 * size:
            self.confirmed()
            self._on_complete()
            return
        if hop >= size:
            self._on_formed(commit.ring, dict(zip(members, commit.reports, strict=True)))
        if size == 1:
            self._accept(self._commit)
        else:
            self._commit_again()

    def _commit_again(self) -> None:
        """Pass the commit token on, again and again until there is a sign that the next member has it."""
        assert self._commit is not None, "there is nothing to pass on"
        members = hosts_in(self._commit.members, self.env.hosts)
        self._tries += 1
        if self._tries > TRIES:
            self._on_failed()
            return
        self.env.send(members[self._commit.hop % len(members)], self._commit, Purpose.CONTROL)
        self.env.set_timer("commit", self._wait_s(frozenset(members)) * min(self._tries, 2))

    def confirmed(self) -> None:
        """The ring works: its commit token need not be passed on any more."""
        self.env.cancel_timer("commit")
