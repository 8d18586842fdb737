"""What the strength of an order forgives a host that crashed (third paper, section 6.3), and what a strict order forbids beside disorder.

*Operational* is R2 of that section, part 1. Say that one host delivers m before m', and another m' before m. This is forgiven only if one
of them delivered both, then crashed, and the other delivered them after that crash. So hosts that are up agree, and only what a host
delivered before it crashed may differ. For an order that is given beforehand, single-source and causal, the other host is the first that
delivered the message which should have come first; it is forgiven too if nobody else ever delivered that message.

*Rollback* is stronger, as R3 is stronger than R2: a host is forgiven only until it has recovered. The paper does not say when a host that
is up again has recovered. Here it has, at the end of the run, once it has been connected with the other host for the protocol's patience.
A host that lost its storage cannot take anything back, so its earlier life is always forgiven.

A host that a majority treats as failed has failed too (section 7.3, logical failures): protocols trace `excluded` and `accepted` when they
do so, and the host traces `failed` when it learns of it.

*Strict* is R1: nothing is forgiven, every delivery counts, and nothing is delivered twice or taken back.

Operational and rollback look at what stands at the end. The paper's R2 also forbids a second delivery; that is what the guarantee *no
duplication* is for.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable

from analysis.judging.connectivity import Connected, Connectivity
from analysis.judging.findings import Clock, Finding, Witness, kept, name, unknown, violated
from analysis.judging.history import Delivery, History, MessageId
from analysis.judging.marks import second
from analysis.judging.properties.order.logs import VERB, Log, shown, steps
from hostagent.contract.promises import Order, Promise, Step, Strength


class Failures:
    """The crashes that an order of some strength takes into account, and what they excuse."""

    def __init__(self, order: Order, history: History, connectivity: Connectivity, patience_ns: int) -> None:
        self._crashes: dict[str, list[Connected]] = {} if order.strength is Strength.STRICT else _failures(history, connectivity)
        self._asked_ns = sorted(asked_ns for spans in self._crashes.values() for asked_ns, _ in spans)
        self._must_recover = order.strength is Strength.ROLLBACK
        self._set_back = history.set_back
        self._connectivity, self._patience_ns = connectivity, patience_ns
        self._first: dict[MessageId, list[Delivery]] = {}
        for one in steps(order, history) if self._crashes else ():
            earliest = self._first.setdefault(one.message, [])
            if len(earliest) < 2 and all(other.host != one.host for other in earliest):
                earliest.append(one)

    def crashed(self, host: str) -> bool:
        """Whether there is anything to forgive a host."""
        return host in self._crashes

    def is_lost(self, one: Delivery, elsewhere: Delivery) -> bool:
        """Whether a host crashed after it delivered a message and before another host did so, and is forgiven."""
        if one.host not in self._crashes:
            return False
        # A clock that was set back says nothing about before and after.
        unclear = not self._set_back.isdisjoint({one.host, elsewhere.host})
        between = any(one.at_ns <= gone_ns and asked_ns < elsewhere.at_ns for asked_ns, gone_ns in self._crashes[one.host])
        return (unclear or between) and not self._recovered(one.host, elsewhere.host)

    def is_lost_to_all(self, one: Delivery) -> bool:
        """Whether a host crashed after it delivered a message and before any other host did so, and is forgiven."""
        if one.host not in self._crashes:
            return False
        elsewhere = next((other for other in self._first[one.message] if other.host != one.host), None)
        if elsewhere is not None:
            return self.is_lost(one, elsewhere)
        later = any(one.at_ns <= gone_ns for _, gone_ns in self._crashes[one.host])
        return later and not self._recovered(one.host, one.origin)

    def _recovered(self, host: str, other: str) -> bool:
        if not self._must_recover or host in self._connectivity.amnesic:
            return False
        together = self._connectivity.together(host, other)
        return bool(together) and together[-1][1] == self._end_ns and together[-1][1] - together[-1][0] >= self._patience_ns

    @property
    def _end_ns(self) -> int:
        return self._connectivity.intervals[-1].end_ns

    def alike(self, log: Log) -> Hashable:
        """What logs with the same messages must have in common, so that the same is forgiven in them."""
        if not self._crashes:
            return None
        host = log[0].host
        whose = host if host in self._crashes else self._connectivity.kind(host)
        return whose, tuple(bisect_left(log, at_ns + 1, key=lambda one: one.at_ns) for at_ns in self._asked_ns)


def _failures(history: History, connectivity: Connectivity) -> dict[str, list[Connected]]:
    """When each host may have failed: crashes, and the times in which others treated it as failed and it did not know."""
    found = {host: list(spans) for host, spans in connectivity.crashes.items()}
    for at_ns, host, known_ns in history.exclusions:
        # Who excludes a host delivers in the same step, and in a simulation at the same instant: that comes after the exclusion.
        found.setdefault(host, []).append((at_ns - 1, known_ns))
    return found


Counterexample = tuple[str, list[Witness]]
"""A sentence and the events that it is about."""
Look = Callable[[Failures], tuple[int, Counterexample | None]]
"""Looks for disorder that is not forgiven: how many cases there are, and the first that breaks the order."""


def judge_order(order: Order, history: History, promise: Promise, connectivity: Connectivity, look: Look, none: str) -> Finding:
    """The finding on an order; `none` is the reason to give if there are no cases.

    A host that has been connected with another for less than the patience may still take back what it delivered in the wrong place.
    """
    cases, found = look(Failures(order, history, connectivity, connectivity.patience_ns(promise)))
    found = found or _not_once(order, history, connectivity)
    if found:
        return violated(max(cases, 1), found[0], *found[1])
    if order.strength is Strength.ROLLBACK and _failures(history, connectivity) and not history.damage:
        _, unsettled = look(Failures(order, history, connectivity, 0))
        if unsettled:
            return unknown(f"{unsettled[0]}: too soon to tell", cases)
    return kept(history, cases, none)


def _not_once(order: Order, history: History, connectivity: Connectivity) -> Counterexample | None:
    """What a strict order forbids beside disorder: a message that was delivered twice or taken back."""
    if order.strength is not Strength.STRICT:
        return None
    time = Clock(history)
    if twice := second(steps(order, history), (), connectivity):
        one, two = twice
        sentence = f"{one.host} {VERB[order.of]} {name(one.message)} twice, at {time(one.at_ns)} and {time(two.at_ns)}"
        return f"{sentence}, which strict order forbids", shown(order, one, two)
    if order.of is Step.DELIVERY and history.taken_back:
        one = history.taken_back[0]
        sentence = f"{one.host} took back {name(one.message)} at {time(one.at_ns)}, which strict order forbids"
        return sentence, [Witness(one.at_ns, one.host, "take-back", *one.message)]
    return None
