"""Two-phase multicast: destinations propose priorities for a message, and its source sends the highest one back to them.

Source: Birman and Joseph, "Reliable communication in the presence of failures" (1987), ABCAST, after Skeen; the third paper, section 2.5
and chapter 4 (costs), sections 7.1.3 and 7.3 (what happens when the source fails).

How. Phase 1: the source sends the message to its destinations. Each one puts it at the end of its queue, undeliverable, with a priority
above all that it has proposed or seen, and answers with this priority. Priorities are a counter and the host, so no two are equal. Phase
2: when all destinations have answered, the source sends the highest priority back. It is the final one: the destinations move the message
to its place in the queue and deliver from the front, up to the first message that is still undeliverable. Nothing can come later that
belongs before what was delivered, since a host proposes only priorities above those. Groups need no care of their own: they may overlap.

Model. Datagrams are lost, duplicated and reordered; hosts crash and restart with their storage.

Guarantees. No creation, no duplication, no gaps, multiple-group order and the order of each source, strictly: no two hosts ever deliver
two messages in different orders, failed ones included. While a destination or, between the phases, the source is down or cut off, a
message waits, and with it those behind it in the queues: nobody is passed over, so nothing is promised before all hosts are connected
(`quorum`). Then everything is delivered. Every destination has a message before anybody delivers it (safe).

With `failover=elect`, a message does not wait for its source nor for a destination, as long as a majority of all hosts is connected:
`electing.py` says how, and why that takes a third phase and the votes of all hosts. The order is as strict; safe is not promised.

Messages. All steps of the phases are data: 3 (n - 1) packets per message to n hosts if the source is one of them, 3 n if not; on a
network that multicasts n + 1 and n + 2, as the proposals come back one by one. Beside them n - 1 or n acknowledgements of phase 2
(control), as whoever waits for an answer repeats the question (repair). Delay to the last host: 3 L. With `elect`, among N hosts: 5 (N -
1) packets whatever the group, 2 N + 1 on multicast, delay 5 L to the last host, N - 1 acknowledgements, and N - 1 packets more when a
source falls silent.

Decisions. The papers do not say how a source's own messages keep their order: a message names the one before it to the same hosts, if
that was not finished, and a destination takes them one after another. A source has at most `window` messages under way; others wait, so
that queues stay bounded. Birman and Joseph take a failed host out of the group by agreement on views, and assume that it has stopped.
Here nobody is taken out: a host that seemed dead has lost nothing when it is back.
"""

from hostagent.contract.core import Core
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Message
from hostagent.contract.promises import Guarantee, Order, Promise, Scope, Strength
from hostagent.parts.delivery import ITEMS_PER_GROUP
from hostagent.parts.questions import patience_ms
from hostagent.protocols.two_phase.blocking import Blocking
from hostagent.protocols.two_phase.electing import Electing
from hostagent.protocols.two_phase.messages import MOST_HOSTS
from hostagent.protocols.two_phase.parameters import TwoPhaseParameters


class TwoPhase(Core):
    """One of the two ways to agree on final priorities."""

    name = "two-phase"
    number = 10
    summary = "destinations propose priorities, the source sends back the highest: one order for all groups, 3 (n - 1) packets"
    assumes = "hosts that crash come back with their storage, or with failover=elect a majority does"
    beyond = frozenset({"restart-lost"})
    knows_groups = True
    messages = tuple(dict.fromkeys((*Blocking.messages, *Electing.messages)))
    waits = ("longest_retry_ms", "takeover_ms")
    Parameters = TwoPhaseParameters
    parameters: TwoPhaseParameters

    def __init__(self, env: Environment, parameters: TwoPhaseParameters) -> None:
        super().__init__(env, parameters)
        make = Blocking if parameters.failover == "block" else Electing
        self.agreement: Blocking | Electing = self.add("agreement", lambda own: make(own, parameters))

    @classmethod
    def promise(cls, parameters: TwoPhaseParameters, hosts: int) -> Promise:
        """One strict order for all groups, and that all goes on: with everybody, or with a majority.

        Two questions follow each other, or three; a message that is taken over may wait for three attempts. For each other host, a round
        trip is kept, and with `elect` the numbers of its messages and how long they take.
        """
        blocks = parameters.failover == "block"
        guarantees = (
            *(Guarantee.NO_CREATION, Guarantee.NO_DUPLICATION, Guarantee.CONVERGENCE, Guarantee.PROGRESS),
            *(Guarantee.ACYCLIC_ORDER, Guarantee.NO_GAPS, Guarantee.QUIESCENCE, Guarantee.BOUNDED_MEMORY),
            *((Guarantee.SAFE,) if blocks else ()),
        )
        takeover_ms = 0.0 if blocks else 3 * parameters.longest_takeover_ms
        return Promise(
            guarantees=guarantees,
            orders=tuple(Order(scope, Strength.STRICT) for scope in (Scope.SINGLE_SOURCE, Scope.MULTIPLE_GROUP)),
            patience_ms=patience_ms(parameters.longest_retry_ms, 2 if blocks else 3) + takeover_ms,
            quorum=hosts if blocks else hosts // 2 + 1,
            retained=(5 if blocks else 16) * hosts,
            retained_per_group=ITEMS_PER_GROUP,
        )

    @classmethod
    def check(cls, parameters: TwoPhaseParameters, hosts: tuple[str, ...]) -> None:
        """Refuse more hosts than an answer has room for."""
        if parameters.failover == "elect" and len(hosts) > MOST_HOSTS:
            raise ValueError(f"failover=elect is for at most {MOST_HOSTS} hosts, as each answer has a number for every host")

    @classmethod
    def most_lost(cls, parameters: TwoPhaseParameters, hosts: int) -> int:
        """With `elect` any minority. Otherwise nothing is due while somebody is lost, but the order must hold."""
        return hosts if parameters.failover == "block" else (hosts - 1) // 2

    @classmethod
    def most_copies(cls, hosts: int) -> int:
        """The steps of all phases, with `elect`."""
        return 5 * (hosts - 1)

    @property
    def unfinished(self) -> int:
        """The messages that wait for room in the window."""
        return len(self.agreement.waiting)

    def on_multicast(self, to: Destination, sequence: int, payload: bytes) -> None:
        """Begin phase 1."""
        self.agreement.on_multicast(to, sequence, payload)

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:
        """A step of a phase. Messages of the other mode are forged, and passed over."""
        if isinstance(message, self.agreement.messages):
            self.agreement.on_message(sender, message, expensive)
