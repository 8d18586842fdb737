"""Quiescence: when there is nothing left to do, no host sends more than the protocol's stated background.

The rate is computed from a host's samples, over all the time since the protocol had to be at rest. In a run that ends before that, the rate
is computed over the second half of the time since the last broadcast or fault; a high rate is then *not tested*, and no violation. Allowed
are a quarter more than stated, as timers have jitter, and two datagrams, as one may fall on each end of the window. In less than a second a
host may send as much as in one: several datagrams may be due at once.
"""

from typing import Final

from analysis.judging.connectivity import Connectivity
from analysis.judging.findings import Clock, Finding, kept, not_tested, unknown, violated
from analysis.judging.history import History, Sample
from analysis.judging.properties.load.rest_samples import cannot_judge, rest
from hostagent.contract.promises import Promise

TOLERANCE: Final = 1.25
EXTRA: Final = 2


def check(history: History, promise: Promise, connectivity: Connectivity) -> Finding:
    """Compare every host's rate of sending with the stated background. A host is a case."""
    if stop := cannot_judge(history, connectivity):
        return stop
    due_ns, samples = rest(history, promise, connectivity)
    time, open_question, too_short, quiet = Clock(history), None, None, 0
    stated = promise.background_per_second + promise.background_per_source * len(history.sources)
    for host, taken in samples.items():
        settled = [sample for sample in taken if sample.at_ns >= due_ns]
        window = settled if len(settled) >= 2 else _second_half(taken)
        if len(window) < 2:
            open_question = unknown(
                f"after the last broadcast or fault there are too few samples of {host}, {len(taken)}; a rate takes two"
            )
        elif _busy(window[0], window[-1], stated):
            sentence = _sentence(window[0], window[-1], stated, time)
            if window is settled:
                return violated(quiet + 1, sentence, window[0], window[-1])
            too_short = not_tested(f"{sentence}, but the run ended before it had to be at rest, at {time(due_ns)}")
        else:
            quiet += 1
    return open_question or too_short or kept(history, quiet, "there are no hosts")


def _second_half(taken: list[Sample]) -> list[Sample]:
    """The samples of the second half of the time, at least two."""
    half_ns = (taken[0].at_ns + taken[-1].at_ns) // 2 if taken else 0
    late = [sample for sample in taken if sample.at_ns >= half_ns]
    return late if len(late) >= 2 else taken[-2:]


def _busy(one: Sample, two: Sample, stated: float) -> bool:
    seconds = max((two.at_ns - one.at_ns) / 1e9, 1.0)
    return two.sent - one.sent > TOLERANCE * stated * seconds + EXTRA


def _sentence(one: Sample, two: Sample, stated: float, time: Clock) -> str:
    return (
        f"{one.host} sent {two.sent - one.sent} datagrams between {time(one.at_ns)} and {time(two.at_ns)}, with nothing left to do, "
        f"more than the {stated:g} a second stated"
    )
