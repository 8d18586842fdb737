"""Groups of hosts that messages are sent to. A group has a name and a number, from 1 in the order of the scenario; group 0 is everybody.

Groups may overlap. As text, for `--set groups=...`: `alpha:h1,h2,h3;beta:h2,h4`, or `random:groups=10,size=4,seed=7` for groups drawn
among all hosts.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from topologies.network import MOST_GROUPS

EVERYBODY = "everybody"
"""The name of group 0, which every scenario has."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_RANDOM = ("groups", "size", "seed")


class GroupError(ValueError):
    """Groups that make no sense on this network; the message says why and what to change."""


@dataclass(frozen=True)
class Group:
    """Hosts that one message can be sent to."""

    name: str
    members: tuple[str, ...]


def check_groups(groups: Sequence[Group], hosts: Collection[str]) -> None:
    """Refuse too many groups, bad or repeated names, and bad members."""
    if len(groups) > MOST_GROUPS:
        raise GroupError(f"{len(groups)} groups are too many: there are addresses for {MOST_GROUPS}")
    for name, times in Counter(group.name for group in groups).items():
        if times > 1:
            raise GroupError(f"group {name!r} is named twice: give each group a name of its own")
        if name == EVERYBODY or not _NAME.fullmatch(name):
            raise GroupError(
                f"a group cannot be called {name!r}: use up to 32 letters, digits, - and _, and not {EVERYBODY!r}, which is every host"
            )
    for group in groups:
        check_members(f"group {group.name!r}", group.members, hosts)


def check_members(what: str, members: Collection[str], hosts: Collection[str]) -> None:
    """Refuse an empty set of members, hosts that do not exist, and hosts that are named twice."""
    if not members:
        raise GroupError(f"{what} is empty: name at least one host")
    for host, times in Counter(members).items():
        if host not in hosts:
            raise GroupError(f"{what} names {host!r}, which is not a host of the network")
        if times > 1:
            raise GroupError(f"{what} names {host} twice")


def read_groups(text: str, hosts: Sequence[str]) -> tuple[Group, ...]:
    """Read groups from text; the docstring of the module has the syntax."""
    if text.startswith("random:"):
        number, size, seed = _read_random(text)
        return random_groups(hosts, number, size, seed)
    pairs = [part.partition(":") for part in text.split(";")]
    if not all(colon for _, colon, _ in pairs):
        raise GroupError(f"groups={text}: write NAME:HOST,HOST;NAME:HOST,HOST or random:groups=10,size=4,seed=7")
    return tuple(Group(name, tuple(filter(None, members.split(",")))) for name, _, members in pairs)


def _read_random(text: str) -> tuple[int, int, int]:
    words = dict(word.partition("=")[::2] for word in text.removeprefix("random:").split(","))
    if not {"groups", "size"} <= words.keys() <= {*_RANDOM} or not all(value.isdecimal() for value in words.values()):
        raise GroupError(f"groups={text}: write random:groups=10,size=4,seed=7, with whole numbers")
    return int(words["groups"]), int(words["size"]), int(words.get("seed", "1"))


def random_groups(hosts: Sequence[str], number: int, size: int, seed: int) -> tuple[Group, ...]:
    """`number` groups g1, g2, ... of `size` hosts each, drawn independently; members are in the order of hosts."""
    if not 1 <= size <= len(hosts):
        raise GroupError(f"random groups of {size} hosts: there are {len(hosts)} hosts, and a group has at least one")
    random = Random(f"{seed}/groups")  # noqa: S311 - an experiment that can be repeated needs no secrets
    return tuple(
        Group(f"g{group}", tuple(hosts[place] for place in sorted(random.sample(range(len(hosts)), size))))
        for group in range(1, number + 1)
    )
