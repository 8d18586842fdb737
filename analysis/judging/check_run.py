"""A verdict on a run directory without Spark, directly from its event logs."""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import msgspec

from analysis.books import Books, told_books
from analysis.judging.connectivity import Connectivity
from analysis.judging.history import History, LoggedEvent, MembershipRequest, Transit, make
from analysis.judging.judge import Judgement, judge
from runfiles.event_logs import KEPT, read_log
from runfiles.reading import RunInput, load
from runfiles.versions import decode_file

Transits = tuple[Transit, ...] | None


def check_run(
    directory: Path, transits: Callable[[RunInput, Sequence[MembershipRequest]], Transits] = lambda *_: None
) -> Judgement:
    """Judge a run. Open books are a doubt, and so are books that have not been done.

    `transits` gives the datagrams between hosts if the run's promise is about them. Without them such promises are *unknown*.
    """
    run = load(directory)
    history = history_of(run)
    history = history._replace(transits=transits(run, history.requests))
    return judge(history, run.run.promise, connectivity_of(run), _open_books(directory))


def connectivity_of(run: RunInput) -> Connectivity:
    """What the network allowed in a run."""
    return Connectivity(run.network, run.faults, run.run.ended_ns)


def history_of(run: RunInput, kinds: Collection[str] = KEPT) -> History:
    """The history of a run, from its event logs, or as much of it as these kinds of events tell."""
    logs = {host: read_log(host, run.directory / "events" / f"{host}.jsonl", kinds) for host in run.network.hosts}
    problems = (log.problem for log in logs.values() if log.problem)

    def rows() -> Iterator[LoggedEvent]:
        for host, log in logs.items():
            for position, event in log.events:
                yield host, position, event.at_ns, event.event, event.origin, event.sequence, event.details

    return make(run.network.hosts, rows(), run.run.ended_ns, (*run.run.problems, *problems))


class _Summary(msgspec.Struct):
    differences: tuple[str, ...] = ()
    books: Books | None = None


def _open_books(directory: Path) -> tuple[str, ...]:
    summary = _summary(directory)
    return doubts_about(summary.differences) if summary else ("its books have not been done: ./castbed analyse does them",)


def books_of(directory: Path) -> str:
    """The state of the books of a run, in half a sentence; nothing where they have not been done."""
    summary = _summary(directory)
    return told_books(summary.books) if summary and summary.books else ""


def _summary(directory: Path) -> _Summary | None:
    path = directory / "summary.json"
    try:
        return decode_file(path.read_bytes(), _Summary, path)
    except (OSError, msgspec.MsgspecError):
        return None


def doubts_about(differences: tuple[str, ...]) -> tuple[str, ...]:
    """Why a run whose books are open is not to be believed."""
    return (f"the books are not balanced: {differences[0]}",) if differences else ()
