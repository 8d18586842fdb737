"""Distances between all hosts as one text: the advice of the propagation graph.

With the distances, every host computes the same graph for whatever groups there are, now and after a change. The text has the different
distances in ascending order, and after a bar which of them each pair of hosts has: two bytes for each pair, h1-h2, h1-h3, ..., h2-h3 and so
on, compressed, in base 64. There are few different distances, so the text for a grid of 100 hosts takes less than two thousand characters.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import combinations

from hostagent.protocols.propagation_graph.generator import Distance


def distances_text(hosts: Sequence[str], distance: Distance) -> str:
    """The distances of all pairs of hosts as text."""
    found = [distance(one, other) for one, other in combinations(hosts, 2)]
    scale = {value: place for place, value in enumerate(sorted(set(found)))}
    table = b"".join(scale[value].to_bytes(2) for value in found)
    return f"{' '.join(str(value) for value in scale)}|{b64encode(zlib.compress(table, 9)).decode()}"


def read_distances(text: str, hosts: Sequence[str]) -> Distance:
    """The distances of these hosts from text. Raises a `ValueError` with a sentence if it is none for so many hosts."""
    number = {host: place for place, host in enumerate(hosts)}
    pairs = len(hosts) * (len(hosts) - 1) // 2
    try:
        written, _, packed = text.partition("|")
        scale = [float(value) for value in written.split()]
        # What comes from a recorded run may be of any size once it is unpacked.
        table = zlib.decompressobj().decompress(b64decode(packed, validate=True), 2 * pairs + 1)
        found = [scale[int.from_bytes(table[at : at + 2])] for at in range(0, len(table), 2)]
    except (ValueError, IndexError, zlib.error):
        found = []
    if len(found) != pairs:
        raise ValueError(f"advice={text[:20]}...: these are not the distances between {len(hosts)} hosts")

    def distance(one: str, other: str) -> float:
        first, second = sorted((number[one], number[other]))
        return found[first * (2 * len(hosts) - first - 1) // 2 + second - first - 1] if first != second else 0.0

    return distance
