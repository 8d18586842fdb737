"""The sequencer: every message is sent to one site, which numbers it and sends it on. So all hosts deliver all messages in one order.

Source: Kaashoek, Tanenbaum, Hummel and Bal, "An Efficient Reliable Broadcast Protocol" (1989), the broadcast of Amoeba; the third paper
(Spauster) has it in section 2.4, and as "centralized" in chapter 4.

How. A source sends its message to the sequencer (`Submission`) and keeps it until it has come back with a number. The sequencer takes the
messages of each source in their order, numbers them and sends them to their destinations (`Ordered`). One sequencer numbers the messages
of all groups. A destination gets only what is for it, so the numbers that it sees have gaps; each message therefore also says which number
the last message before it had for each destination. So a destination knows what it lacks, and asks the sequencer for it (`Report`).
What was ordered stays in the history of the sequencer until all its destinations have it. They say so with their own submissions, after
every so many messages, and when they are asked (`Status`): after a silence, and when the history is half full. A full history takes nothing
in: messages wait at their sources, of which each has at most `window` messages under way. Nothing is lost, and memory is bounded. Where
the queues of links hold less than the history, less is under way (`hostagent.parts.pace`), and hosts are asked whenever messages wait.

With `gather_ms` the sequencer orders messages that come one after another together, so that they share datagrams where these are packed;
a message after a pause does not wait.

Model. Datagrams are lost, duplicated and reordered; hosts crash, and restart with their storage.

Guarantees with `failover=none`. No creation, no duplication, multiple-group order, strictly: no two hosts ever deliver two messages in
different orders, failed ones included, and nobody has a gap. When the sequencer is down, everything stops, and goes on when it is back. A
destination that stays away stops everybody once the history is full. When all are back, all have what is for them (convergence, progress).

With `failover=elect` a majority of all hosts goes on without the others, the sequencer included. The same guarantees hold; progress needs a
majority that is connected. A message that only a dead sequencer has delivered would break the order when its successor gives the number to
another one, so a message is delivered only when a majority has it. `elected` and `leading` do what Raft does (Ongaro and Ousterhout, 2014),
with the election of `hostagent.parts.election`. Every host gets and stores all entries, whatever their groups, or no successor could know
them. A candidate must have all that its voters have, so a successor knows all that any survivor of its majority has. Sequencers of former
epochs are fenced: who has voted in a later epoch accepts nothing of them. There are no heartbeats: a sequencer is missed only by hosts that
want something of it, and asked by others when a candidate doubts it; it has to leave three questions unanswered. A host that leaves eight
questions in a row unanswered is not waited for once the history is full. What it lacks is kept for it by all, beyond the bound of the
history, so memory is bounded only while nobody stays away; it gets everything when it is back, and is waited for again when it lacks less
than the history holds. A host that has lost its storage is left behind: it delivers nothing any more, which it traces (`left-behind`), and
nothing is kept for it. A message is delayed by 4L instead of 2L.

Messages, if nothing is lost. With `failover=none` among n destinations, of which source and sequencer are two: one packet to the sequencer
and n - 1 from it, or one on a network that multicasts, all data; if the sequencer is the source, one less. Beside them a `Report` (control)
every `history / 8` messages from hosts that send nothing themselves, and after a silence a `Status` and a `Report` for each host that has
not said that it has everything. A source that is no destination is told (`Taken`, control) that its messages were ordered, every
`window / 4` messages and when it asks (`Query`). With `failover=elect` among all N hosts: one packet to the sequencer, N - 1 entries
(data), N - 1 times `Accepted` and N - 1 times `Stable` (control). At rest, nobody sends anything.

Decisions. The paper has a broadcast network and one group; numbers for several groups, on networks that multicast and others, are ours.
Amoeba's sequencer asks for the state of all others when its history is nearly full; here at half, so that sources need not stop. In Amoeba
a sender retries until its own message comes back; here it asks what is missing first, and the sequencer says it unasked when it sees a
gap, so that one loss among many messages costs one round trip. The second method of Amoeba's later papers, in which the source broadcasts
and the sequencer sends only a number, is left out. The paper is "not concerned with site failures"; it sketches that the history could be
replicated and a new sequencer elected, which is what `failover=elect` does.
"""

from collections.abc import Mapping
from typing import Any, Final

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message, Purpose
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.election import Election
from hostagent.protocols.sequencer.elected import Elected
from hostagent.protocols.sequencer.fixed import Fixed
from hostagent.protocols.sequencer.messages import (
    Accepted,
    Entry,
    Ordered,
    Passed,
    Query,
    Report,
    SequencerParameters,
    Stable,
    Status,
    Submission,
    Taken,
)
from hostagent.protocols.sequencer.outbox import Outbox

REPETITIONS: Final = 20
FIXED = (Submission, Query, Taken, Ordered, Status, Report)
ELECTED = (Entry, Stable, Accepted, Passed)


class Sequencer(Core):
    """Submit messages to the sequencer, and deliver them in the order that it gives them."""

    name = "sequencer"
    number = 9
    summary = "one site numbers all messages and sends them on: one order for all groups, n packets; with failover=elect it has successors"
    assumes = "hosts come back with their storage; with failover=elect a majority does"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = (*FIXED, *ELECTED, *Election.messages)
    waits = ("longest_wait_ms", "silence_ms")
    Parameters = SequencerParameters
    parameters: SequencerParameters

    def __init__(self, env: Environment, parameters: SequencerParameters) -> None:
        super().__init__(env, parameters)
        self._outbox = self.add("outbox", lambda own: Outbox(own, parameters, self._submit, self._on_silence))
        kind: type[Fixed | Elected] = Fixed if parameters.failover == "none" else Elected
        self._ordering: Fixed | Elected = self.add("ordering", lambda own: kind(own, parameters, self._outbox))

    @classmethod
    def promise(cls, parameters: SequencerParameters, hosts: int) -> Promise:
        """One strict order for all groups. A message needs a submission and its repair, and the same from the sequencer.

        A question and its answer fail twenty times in a row once in a million cases where half of them do. For each other host some numbers
        are kept by each part, and with failover the last entry.
        """
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
        )
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_GROUP)),
            quorum=hosts // 2 + 1 if parameters.failover == "elect" else 0,
            patience_ms=2 * REPETITIONS * max(parameters.silence_ms, parameters.longest_wait_ms),
            retained=20 * hosts + 40,
        )

    @classmethod
    def beyond_with(cls, parameters: SequencerParameters) -> frozenset[str]:
        """Without failover, all wait for the sequencer, and the history for all."""
        return cls.beyond if parameters.failover == "elect" else cls.beyond | {"crash-for-good", "cut-off-for-good"}

    @classmethod
    def most_lost(cls, parameters: SequencerParameters, hosts: int) -> int:
        """With failover, a minority."""
        return (hosts - 1) // 2 if parameters.failover == "elect" else hosts

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """The submission, and a copy to each host but the sequencer."""
        return hosts

    @classmethod
    def check(cls, parameters: SequencerParameters, hosts: tuple[str, ...]) -> None:
        """Refuse a sequencer that is no host."""
        if parameters.sequencer and parameters.sequencer not in hosts:
            raise ValueError(f"sequencer={parameters.sequencer}: there is no such host")

    def on_start(self, stored: Mapping[str, Any]) -> None:  # noqa: ARG002 - the parts have what was stored
        """Go on where this host was."""
        self._ordering.begin()

    @property
    def unfinished(self) -> int:
        """The messages that have no place in the order yet."""
        return len(self._outbox)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Send a message to the sequencer."""
        self._outbox.put(to, sequence, payload)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """Everything is about the order."""
        self._ordering.on_message(sender, message, expensive)

    def _submit(self, submission: Submission, purpose: Purpose) -> None:
        self._ordering.submit(submission, purpose)

    def _on_silence(self, sent: int) -> None:
        self._ordering.on_silence(sent)
