"""Plans partitions of about equal size: big files are cut into parts, and small files are packed together.

A file is cut only where a record is known to start. To find such places, the chain of records is followed from the first one on before
anything is read (`sparkpcap.walk`). Readers make the same walk, so each of them gets complete records, and every record is read once.

That walk is a large part of all work. A caller that can read again may plan with `guessing` instead: each cut is then a place that looks
like a record, and the readers prove it. The first part starts at a record; a part that starts at a record and ends exactly at the next cut
proves that cut. If a part `missed` its end (`sparkpcap.rows.Report`), the caller discards everything and reads again without guessing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from sparkpcap.captures import GUESSED, Capture, Form, guess
from sparkpcap.files import Gzipped, Source, open_source, size_of
from sparkpcap.hadoop import Settings

MOST_BYTES: Final = 128 << 20
"""The longest part of a file, as in Spark's own data sources."""
# A smaller part is not worth a task: reading it takes a few milliseconds.
LEAST_BYTES: Final = 4 << 20
# The cost of opening a file or a part, as the number of bytes that could be read in that time.
_BEGINNING: Final = 256 << 10


class FilePart(NamedTuple):
    """A file, or the part of it from `start` to `end`, to be read as `form` says. Without a form, reading starts with the file header."""

    path: str
    start: int = 0
    end: int | None = None
    form: Form | None = None
    bytes: int = 0


def plan(
    paths: Sequence[str], partitions: int, least_bytes: int = LEAST_BYTES, *, guessing: bool = False, settings: Settings = ()
) -> list[tuple[FilePart, ...]]:
    """The parts of files that each partition reads: at least `partitions` partitions, unless there is too little to read."""
    total = sum(_BEGINNING + size_of(path, settings) for path in paths)
    target = min(MOST_BYTES, max(least_bytes, -(-total // partitions)))
    found = (part for path in paths for part in parts(path, target, guessing=guessing, settings=settings))
    return list(_packed(found, target))


def parts(path: str, target: int, *, guessing: bool = False, settings: Settings = ()) -> list[FilePart]:
    """A file in parts of about `target` bytes. A file that is compressed, cannot be opened or is hardly longer is one part."""
    size = size_of(path, settings)
    whole = [FilePart(path, bytes=size)]
    if size <= target + target // 2:
        return whole
    try:
        source = open_source(path, settings)
    except OSError:
        return whole
    try:
        if isinstance(source, Gzipped):
            return whole
        guesses = _guesses(source, target, size) if guessing else None
        cuts = list(_cuts(Capture(source), target, size)) if guesses is None else guesses
    finally:
        source.close()
    if not cuts:
        return whole
    starts: list[tuple[int, Form | None]] = [(0, None), *cuts]
    ends: list[int | None] = [at for at, _ in cuts]
    return [
        FilePart(path, start, end, form, (end or size) - start) for (start, form), end in zip(starts, [*ends, None], strict=True)
    ]


def _guesses(source: Source, target: int, size: int) -> list[tuple[int, Form]] | None:
    """Places that look like records, about every `target` bytes; None for pcapng, whose later blocks depend on earlier ones."""
    first = next(Capture(source, 0, min(size, GUESSED)).stretches(), None)
    if first is None or first.form.blocks:
        return None
    wanted = range(target, size - target // 2, target)
    found = (guess(source, at, first.form) for at in wanted)
    return [(at, first.form) for at in found if at is not None]


def _cuts(capture: Capture, target: int, size: int) -> Iterator[tuple[int, Form]]:
    """The records at which to cut a file: the first record at or after each multiple of `target`."""
    wanted = target
    for stretch in capture.stretches():
        if not len(stretch.records):
            continue
        places = stretch.records + stretch.at
        # A last part that is much shorter than the others is not worth a task.
        while wanted <= min(int(places[-1]), size - target // 2):
            number = int(np.searchsorted(places, wanted))
            yield int(places[number]), stretch.form_at(number)
            wanted = max(wanted + target, int(places[number]) + 1)


def _packed(found: Iterable[FilePart], target: int) -> Iterator[tuple[FilePart, ...]]:
    """Parts, in order, packed into partitions of about `target` bytes."""
    together: list[FilePart] = []
    full = 0
    for part in found:
        effort = _BEGINNING + part.bytes
        if together and full + effort // 2 >= target:
            yield tuple(together)
            together, full = [], 0
        together.append(part)
        full += effort
    if together:
        yield tuple(together)
