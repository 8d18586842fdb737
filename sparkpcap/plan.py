"""Who reads what: big files are cut into parts, small ones packed together, so that partitions are about as long as each other.

A file is cut only where a record is known to start. To know that, the chain of its records is followed from the first one on, before
anything is read (`sparkpcap.walk`); it is the same walk that readers make, so whatever they are given is whole records, each exactly once.

That walk is a good part of all the work. Who can read again may `guess` instead: then each cut is a place that looks like a record, and it
is the readers who prove it. A part that starts at a record and ends exactly at the next cut proves that cut, the first part starts at the
first record, and so on; if one `missed` its end (`sparkpcap.rows.Report`), nothing that was read counts, and all is read anew without
guessing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from sparkpcap.captures import GUESSED, Capture, Form, guess
from sparkpcap.files import Gzipped, Source, open_source, size_of
from sparkpcap.hadoop import Settings

MOST_BYTES: Final = 128 << 20
"""The longest part of a file, as in Spark's own sources."""
# Less is not worth a task of its own: it takes some milliseconds to read.
LEAST_BYTES: Final = 4 << 20
# What it takes to begin with a file or a part, as bytes that could be read meanwhile.
_BEGINNING: Final = 256 << 10


class FilePart(NamedTuple):
    """A file, or a part of one: from `start` to `end`, to be read as `form` says. Without a form the file is read from its header on."""

    path: str
    start: int = 0
    end: int | None = None
    form: Form | None = None
    bytes: int = 0


def plan(
    paths: Sequence[str], partitions: int, least_bytes: int = LEAST_BYTES, *, guessing: bool = False, settings: Settings = ()
) -> list[tuple[FilePart, ...]]:
    """The parts of files that each partition reads: enough of them for so many workers, unless there is too little to read."""
    total = sum(_BEGINNING + size_of(path, settings) for path in paths)
    target = min(MOST_BYTES, max(least_bytes, -(-total // partitions)))
    found = (part for path in paths for part in parts(path, target, guessing=guessing, settings=settings))
    return list(_packed(found, target))


def parts(path: str, target: int, *, guessing: bool = False, settings: Settings = ()) -> list[FilePart]:
    """A file in parts of about `target` bytes. What is compressed or cannot be opened is one part, and so is what is but little longer."""
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
    """Places that look like records, about every `target` bytes; nothing for formats in which earlier blocks say how to read later ones."""
    first = next(Capture(source, 0, min(size, GUESSED)).stretches(), None)
    if first is None or first.form.blocks:
        return None
    wanted = range(target, size - target // 2, target)
    found = (guess(source, at, first.form) for at in wanted)
    return [(at, first.form) for at in found if at is not None]


def _cuts(capture: Capture, target: int, size: int) -> Iterator[tuple[int, Form]]:
    """Records at which to cut a file, the first one at or after every multiple of `target`."""
    wanted = target
    for stretch in capture.stretches():
        if not len(stretch.records):
            continue
        places = stretch.records + stretch.at
        # A last part that is much shorter than the others is not worth its task.
        while wanted <= min(int(places[-1]), size - target // 2):
            number = int(np.searchsorted(places, wanted))
            yield int(places[number]), stretch.form_at(number)
            wanted = max(wanted + target, int(places[number]) + 1)


def _packed(found: Iterable[FilePart], target: int) -> Iterator[tuple[FilePart, ...]]:
    """Parts, in their order, in partitions that are full when they have reached the target."""
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
