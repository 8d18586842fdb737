"""One token: there are never two tokens of one generation.

A protocol with a token numbers the generations of the token: one that is made anew, because the last one may be lost, has a higher
generation. The protocol logs when a host begins to hold the token and when the host hands it on: `env.trace("token", generation=3,
held=True)`, then `held=False`. These lines are durable before the datagram with the token leaves, so no two hosts may hold one generation
at the same time. A host that crashes takes its token along: a host that holds the same generation afterwards has made a second one.

The promise names the message kind of the token (`Promise.token_kind`). A datagram of this kind must leave a host only after the host has
logged that it handed a token on; else there is a token that nobody held. Repeated datagrams are allowed, as datagrams may be lost: a host
that takes the token a second time holds it while another host does. Captures do not show the kinds of the messages in a pack.

A token that was given up for lost may live on beside its successor of a later generation: at a host that was cut off or paused, or that
comes back. That breaks no promise, and the finding tells how long it lasted (`Finding.longest_ms`). Where the parts of a split network
each go on, each of them has a token by right, so nothing is told there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

import msgspec

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, violated, without_transits
from analysis.judging.history import History, TokenChange, Transit
from hostagent.contract.promises import Guarantee, Promise


class Hold(NamedTuple):
    """A host holds a token from one line of its log to another; without an end, to the end of the run."""

    start_ns: int
    end_ns: int
    change: TokenChange


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare who holds the token when. A case is a host that begins to hold a token, or a datagram with a token."""
    if stop := without_transits(history):
        return stop
    sent = [transit for transit in history.transits or () if transit.kind == promise.token_kind]
    cases, time = sum(change.held for change in history.tokens) + len(sent), Clock(history)
    comparable = [change for change in history.tokens if change.host not in history.set_back]
    generations = _holds(comparable, None if history.damage else history.ended_ns)
    for holds in generations.values():
        for one, two in _overlaps(holds):
            until = f"until {time(one.end_ns)}" if one.end_ns <= history.ended_ns else "until the end"
            sentence = (
                f"{one.change.host} held the token of generation {one.change.generation} from {time(one.start_ns)} {until}, "
                f"and {two.change.host} began to hold it at {time(two.start_ns)}"
            )
            return violated(cases, sentence, one.change, two.change)
    if not history.damage and (forged := _forged(sent, history.tokens)) is not None:
        sentence = f"{forged.sender} sent {forged.to} a token at {time(forged.left_ns)}, but had never handed one on"
        return violated(cases, sentence, forged)
    found = kept(history, cases, "no host held a token")
    if (
        Guarantee.VIEW_PROGRESS in promise.guarantees
        or (longest_ns := _longest_beside_successor_ns(generations, connectivity)) <= 0
    ):
        return found
    told = f"a token lived for up to {longest_ns / 1e6:.3f} ms beside one of a later generation"
    return msgspec.structs.replace(found, longest_ms=longest_ns / 1e6, reason=found.reason or told)


def _holds(changes: Iterable[TokenChange], ended_ns: int | None) -> dict[int, list[Hold]]:
    """When which host held the token of each generation, in the order in which they began.

    Without the time when the run ended, holds without an end are left out: the line with the end may be missing.
    """
    found: dict[int, list[Hold]] = defaultdict(list)
    open_holds: dict[tuple[str, int], TokenChange] = {}
    for change in changes:
        key = change.host, change.generation
        if begun := open_holds.pop(key, None):
            found[change.generation].append(Hold(begun.at_ns, change.at_ns, begun))
        if change.held:
            open_holds[key] = change
    if ended_ns is not None:
        for (_, generation), begun in open_holds.items():
            found[generation].append(Hold(begun.at_ns, ended_ns + 1, begun))
    return {generation: sorted(holds) for generation, holds in found.items()}


def _overlaps(holds: Iterable[Hold]) -> Iterator[tuple[Hold, Hold]]:
    """Two holds at different hosts at the same time; `holds` is in the order in which they began."""
    longest: Hold | None = None
    for hold in holds:
        if longest is not None and hold.start_ns < longest.end_ns and hold.change.host != longest.change.host:
            yield longest, hold
        if longest is None or hold.end_ns > longest.end_ns:
            longest = hold


def _longest_beside_successor_ns(generations: Mapping[int, list[Hold]], connectivity: Connectivity) -> int:
    """From when a host first held a token of a later generation until a host last held this one, for the worst; a crash ends a hold."""
    newest_first = [generations[generation] for generation in sorted(generations, reverse=True)]
    succeeded_ns = accumulate((holds[0].start_ns for holds in newest_first), min)
    ended_ns = (max(_ended_ns(hold, connectivity) for hold in holds) for holds in newest_first[1:])
    return max((end - start for end, start in zip(ended_ns, succeeded_ns, strict=False)), default=0)


def _ended_ns(hold: Hold, connectivity: Connectivity) -> int:
    crashes = [applied for _, applied in connectivity.crashes.get(hold.change.host, ()) if applied >= hold.start_ns]
    return min(hold.end_ns, connectivity.ended_ns, *crashes)


def _forged(sent: Iterable[Transit], changes: Iterable[TokenChange]) -> Transit | None:
    """The first datagram with a token of a host that had not handed one on by then."""
    handed_on = {change.host: change.at_ns for change in reversed(tuple(changes)) if not change.held}
    return next((transit for transit in sent if handed_on.get(transit.sender, transit.left_ns + 1) > transit.left_ns), None)
