"""Random cases, each from one seed. Every kind of trouble is on or off for a whole case, so that rare combinations come up often.

A case has a safety phase with all the faults that were drawn, and then a liveness phase on the healed part of the network, long enough for
the protocol to do there what it promises. Hosts that die for good and switches that are cut off for good do not belong to the healed part,
and neither do hosts that depart.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import msgspec

from hostagent.contract.core import Core
from hostagent.contract.promises import Guarantee, Promise
from hostagent.protocols import PROTOCOLS
from runfiles.format import Medium
from scenarios import faults as vocabulary
from scenarios.faults import AnyFault, Trigger, trunks
from scenarios.groups import Group
from simulator.cases import Case
from topologies import Network, find

# The hosts of the networks that cases have.
FEWEST_HOSTS, MOST_HOSTS = 2, 12
# How many faults of a kind a case has at most, and how long each lasts at most.
MOST_OF_A_KIND = 3
LONGEST_MS = 3000.0
# One case in this many may have trouble that the protocol does not claim to survive.
BEYOND_ONE_IN = 5
# In one case in this many, messages wait this long to share a datagram.
PACKED_ONE_IN = 4
PACK_MS = 10.0
# In one case in this many, messages go to groups instead of everybody, if the protocol knows groups.
GROUPED_ONE_IN = 3
MOST_GROUPS = 4
# In one case in this many hosts are left behind, if the protocol takes deliveries back. That is for longer than a protocol takes to give
# them up, with messages all the time.
LEFT_BEHIND_ONE_IN = 2
LEFT_BEHIND_MS = (4000, 9000)
# In a brief campaign, one case in this many runs to its end, as some promises are about networks that were left in peace for long.
WHOLE_ONE_IN = 8
# In one case in this many, a protocol that says how has so little room that it reaches its limits.
SCARCE_ONE_IN = 2
# A message and its acknowledgement on the wire, with all headers, without packing.
BITS_OF_A_COPY = 2400
# A link is too narrow for a protocol if carrying everything once takes longer than this share of the protocol's patience.
ROOM = 0.25


class _Draw:
    """The choices of one case."""

    def __init__(self, random: Random, network: Network, duration_ms: float, core: type[Core]) -> None:
        self.random = random
        self.network = network
        self.duration_ms = duration_ms
        self.core = core

    def moment(self) -> float:
        """An instant in the safety phase, in whole milliseconds."""
        return float(self.random.randrange(round(self.duration_ms)))

    def span(self) -> float:
        """How long a fault lasts: short ones are as likely as long ones."""
        return float(round(LONGEST_MS ** self.random.random()))

    def host(self) -> str:
        """Any host."""
        return self.random.choice(self.network.hosts)

    def link(self) -> str:
        """Any link between switches."""
        return self.random.choice(trunks(self.network)).name


def _link_down(draw: _Draw) -> Iterator[AnyFault]:
    at_ms, link = draw.moment(), draw.link()
    yield vocabulary.LinkDown(at_ms=at_ms, link=link)
    yield vocabulary.LinkUp(at_ms=at_ms + draw.span(), link=link)


def _flap(draw: _Draw) -> Iterator[AnyFault]:
    times = draw.random.randint(2, 5)
    yield vocabulary.Flap(at_ms=draw.moment(), link=draw.link(), times=times, down_ms=draw.span() / 5, up_ms=draw.span() / 5)


def _link_change(draw: _Draw) -> Iterator[AnyFault]:
    link = draw.link()
    a, _, b = link.partition("-")
    towards = draw.random.choice(("", a, b))
    at_ms = draw.moment()
    loss = draw.random.choice((0.1, 0.5, 0.9, 1.0))
    yield vocabulary.LinkChange(at_ms=at_ms, link=link, towards=towards, loss=loss, duplicate=draw.random.choice((0.0, 0.3)))
    yield vocabulary.LinkChange(at_ms=at_ms + draw.span(), link=link, towards=towards, loss=0.0, duplicate=0.0)


def _partition(draw: _Draw) -> Iterator[AnyFault]:
    side, at_ms = _draw_side(draw), draw.moment()
    yield vocabulary.Partition(at_ms=at_ms, sides=(side,))
    yield vocabulary.Heal(at_ms=at_ms + draw.span())


def _draw_side(draw: _Draw) -> tuple[str, ...]:
    """At least one switch, but not all."""
    switches = draw.network.switches
    return tuple(draw.random.sample(switches, k=draw.random.randint(1, len(switches) - 1)))


def _switch_stop(draw: _Draw) -> Iterator[AnyFault]:
    at_ms, switch = draw.moment(), draw.random.choice(draw.network.switches)
    yield vocabulary.SwitchStop(at_ms=at_ms, switch=switch)
    yield vocabulary.SwitchStart(at_ms=at_ms + draw.span(), switch=switch)


def _controller_stop(draw: _Draw) -> Iterator[AnyFault]:
    at_ms = draw.moment()
    yield vocabulary.ControllerStop(at_ms=at_ms)
    yield vocabulary.ControllerStart(at_ms=at_ms + draw.span())


def _crash(draw: _Draw) -> Iterator[AnyFault]:
    at_ms, host = draw.moment(), draw.host()
    yield vocabulary.Crash(at_ms=at_ms, host=host)
    yield vocabulary.Restart(at_ms=at_ms + draw.span(), host=host)


def _crash_while_sending(draw: _Draw) -> Iterator[AnyFault]:
    host = draw.host()
    nth = draw.random.randint(1, 2 * len(draw.network.hosts))
    yield vocabulary.Crash(when=Trigger("send", host=host, nth=nth), host=host)
    yield vocabulary.Restart(at_ms=draw.duration_ms, host=host)


def _restart_lost(draw: _Draw) -> Iterator[AnyFault]:
    at_ms, host = draw.moment(), draw.host()
    yield vocabulary.Crash(at_ms=at_ms, host=host)
    yield vocabulary.Restart(at_ms=at_ms + draw.span(), host=host, storage="lost")


def _pause(draw: _Draw) -> Iterator[AnyFault]:
    at_ms, host = draw.moment(), draw.host()
    yield vocabulary.Pause(at_ms=at_ms, host=host)
    yield vocabulary.Resume(at_ms=at_ms + draw.span(), host=host)


def _clock(draw: _Draw) -> Iterator[AnyFault]:
    offset_ms, drift_ppm = draw.random.uniform(-5000, 5000), draw.random.uniform(-100_000, 100_000)
    yield vocabulary.Clock(at_ms=draw.moment(), host=draw.host(), offset_ms=offset_ms, drift_ppm=drift_ppm)


def _at_door(kind: type[vocabulary.DropMessage | vocabulary.DuplicateMessage]) -> Callable[[_Draw], Iterator[AnyFault]]:
    def draw_one(draw: _Draw) -> Iterator[AnyFault]:
        message = draw.random.choice(draw.core.messages).__name__
        yield kind(at_ms=draw.moment(), host=draw.host(), kind=message, nth=draw.random.randint(1, 5))

    return draw_one


KINDS: dict[str, Callable[[_Draw], Iterator[AnyFault]]] = {
    "link-down": _link_down,
    "flap": _flap,
    "link-change": _link_change,
    "partition": _partition,
    "switch-stop": _switch_stop,
    "controller-stop": _controller_stop,
    "crash": _crash,
    "crash-while-sending": _crash_while_sending,
    "restart-lost": _restart_lost,
    "pause": _pause,
    "clock": _clock,
    "drop-message": _at_door(vocabulary.DropMessage),
    "duplicate-message": _at_door(vocabulary.DuplicateMessage),
}
"""Every kind of trouble that healing ends, except impairments of links."""

FOR_GOOD = ("crash-for-good", "cut-off-for-good")
"""The kinds of trouble that healing does not end: hosts stay dead, switches stay cut off from the others."""

_LINK_OPTIONS = {
    "loss": ("1%", "10%", "30%"),
    "burst": ("3", "10"),
    "duplicate": ("1%", "20%"),
    "reorder": ("5%", "30%"),
    "delay": ("1ms", "20ms", "200ms"),
    "bandwidth": ("200kbit", "1mbit", "10mbit"),
    "queue": ("2", "20"),
}
"""The impairments of expensive links, each on or off for a whole case."""


TROUBLES = (*KINDS, *FOR_GOOD, *_LINK_OPTIONS)
"""Every kind of trouble that a case of any protocol can have."""

MEMBERSHIP = ("join", "leave", "arrive", "depart")
"""More kinds of trouble, for protocols that know membership: hosts that join and leave groups, come late, and leave for good."""


LEFT_BEHIND = "left-behind"
"""One more kind, for protocols that take deliveries back: others go on without hosts that have delivered what nobody else has."""


def troubles(core: type[Core], promise: Promise) -> tuple[str, ...]:
    """Every kind of trouble that a case of a protocol that promises this can have."""
    return (*TROUBLES, *(MEMBERSHIP if core.knows_membership else ()), *((LEFT_BEHIND,) if _takes_back(promise) else ()))


def _takes_back(promise: Promise) -> bool:
    return Guarantee.ROLLBACK_DISCIPLINE in promise.guarantees


def draw_case(
    protocol: str, seed: int, parameters: dict[str, object] | None = None, medium: Medium = "unicast", *, brief: bool = False
) -> tuple[Case, frozenset[str]]:
    """The case of a seed, and the kinds of trouble that it has. Nothing else depends on the medium, or on whether most cases are brief."""
    random = Random(f"case/{protocol}/{seed}")  # noqa: S311 - repeatable, not secret
    core = PROTOCOLS[protocol]
    chosen = core.Parameters(**(parameters or {}))
    not_survived = core.beyond_with(chosen)
    without = frozenset() if random.randrange(BEYOND_ONE_IN) == 0 else not_survived
    topology, link_kinds = _draw_topology(random, without)
    network = find(topology)
    parameters = {**_draw_limits(core, seed, len(network.hosts)), **(parameters or {})}
    chosen = core.Parameters(**parameters)
    messages, interval_ms = random.randint(1, 20), float(random.choice((1, 10, 50)))
    draw = _Draw(random, network, messages * interval_ms + random.choice((100.0, 2000.0)), core)
    on = [kind for kind in KINDS if random.random() < 0.4 and kind not in without]
    drawn = [fault for kind in on for _ in range(random.randint(1, MOST_OF_A_KIND)) for fault in KINDS[kind](draw)]
    promise = core.promise(chosen, len(network.hosts))
    sources = tuple(random.sample(network.hosts, k=random.randint(1, min(3, len(network.hosts)))))
    pack_ms = PACK_MS if random.randrange(PACKED_ONE_IN) == 0 else 0.0
    left_behind = _draw_left_behind(draw, seed, promise)
    # A majority must be there to leave others behind.
    not_for_good = {*without, *(FOR_GOOD if left_behind else ())}
    for_good = [kind for kind in FOR_GOOD if random.random() < 0.4 and kind not in not_for_good]
    dead = _draw_dead(draw) if "crash-for-good" in for_good else ()
    cut_off = _draw_side(draw) if "cut-off-for-good" in for_good else ()
    lost = {*dead, *(host for host in network.hosts if network.access_switch(host) in cut_off)}
    groups = _draw_groups(network, core, seed)
    if left_behind:
        sources, messages, interval_ms, leaving = left_behind
        drawn += leaving
        on.append(LEFT_BEHIND)
    alive_again = [fault for fault in drawn if not (isinstance(fault, vocabulary.Restart) and fault.host in dead)]
    changes = _draw_membership(draw, seed, sources, groups, without)
    on += [*for_good, *dict.fromkeys(map(vocabulary.name_of, changes))]
    case = Case(
        protocol=protocol,
        seed=seed,
        topology=topology,
        sources=sources,
        messages=messages,
        interval_ms=interval_ms,
        settle_ms=500.0,
        heal_for_ms=2 * promise.patience_ms + 10_000,
        faults=(*alive_again, *_deaths(draw, dead, sources, messages), *changes),
        dead=dead,
        cut_off=cut_off,
        parameters=parameters,
        beyond=not not_survived.isdisjoint((*on, *link_kinds))
        or len(lost) > core.most_lost(chosen, len(network.hosts))
        or messages * _copy_ms(network, core) > ROOM * promise.patience_ms,
        pack_ms=pack_ms,
        brief=brief and seed % WHOLE_ONE_IN != 0,
        medium=medium,
        groups=groups,
    )
    return case, frozenset((*on, *link_kinds))


def _draw_limits(core: type[Core], seed: int, hosts: int) -> dict[str, object]:
    """Parameters with which the protocol reaches its limits, or none. As with groups, all other choices are the same."""
    random = Random(f"limits/{core.name}/{seed}")  # noqa: S311 - repeatable, not secret
    return {} if random.randrange(SCARCE_ONE_IN) else core.scarce(random, hosts)


def _draw_groups(network: Network, core: type[Core], seed: int) -> tuple[Group, ...]:
    """Some groups of any sizes, with random numbers of their own: all other choices are the same with and without groups."""
    random = Random(f"groups/{core.name}/{seed}")  # noqa: S311 - repeatable, not secret
    if not core.knows_groups or random.randrange(GROUPED_ONE_IN):
        return ()
    sizes = [random.randint(1, len(network.hosts)) for _ in range(random.randint(1, MOST_GROUPS))]
    return tuple(Group(f"g{number}", tuple(random.sample(network.hosts, k=size))) for number, size in enumerate(sizes, start=1))


def _draw_membership(
    draw: _Draw, seed: int, sources: tuple[str, ...], groups: tuple[Group, ...], without: frozenset[str]
) -> list[AnyFault]:
    """Hosts that come late or leave for good, and joins and leaves of the others, for a protocol that knows membership.

    The random numbers are of its own, as those of groups. Sources are there all the time.
    """
    if not draw.core.knows_membership:
        return []
    random = Random(f"membership/{draw.core.name}/{seed}")  # noqa: S311 - repeatable, not secret
    on = {kind for kind in MEMBERSHIP if random.random() < 0.5 and kind not in without}
    # As in the cases without membership, a moment is an instant in the safety phase.
    own = _Draw(random, draw.network, draw.duration_ms, draw.core)
    moves = [kind for name, kind in (("arrive", vocabulary.Arrive), ("depart", vocabulary.Depart)) if name in on]
    moving = [host for host in draw.network.hosts if moves and host not in sources and random.random() < 0.3]
    changes: list[AnyFault] = [random.choice(moves)(at_ms=own.moment(), host=host) for host in moving]
    members = {group.name: set(group.members) for group in groups}
    for at_ms in sorted(own.moment() for _ in range(3 * MOST_OF_A_KIND)) if groups else ():
        group, host = random.choice(groups).name, random.choice([host for host in draw.network.hosts if host not in moving])
        if "join" in on and host not in members[group]:
            members[group].add(host)
            changes.append(vocabulary.Join(at_ms=at_ms, host=host, group=group))
        elif "leave" in on and host in members[group] and len(members[group]) > 1:
            members[group].discard(host)
            changes.append(vocabulary.Leave(at_ms=at_ms, host=host, group=group))
    return changes


class _LeftBehind(NamedTuple):
    """Who sends what while hosts are left behind, and the faults that leave them behind."""

    sources: tuple[str, ...]
    messages: int
    interval_ms: float
    faults: list[AnyFault]


def _draw_left_behind(draw: _Draw, seed: int, promise: Promise) -> _LeftBehind | None:
    """Hosts that deliver what nobody else has, while a majority goes on without them and without it (third paper, Figures 7.1 to 7.5).

    A source dies when it has delivered a message of its own, before any datagram with the message has left; or a minority is cut off, and
    hosts on both sides send. The source is the first host in most cases, as protocols give that one a role. The random numbers are of its
    own, as those of groups.
    """
    random = Random(f"left behind/{draw.core.name}/{seed}")  # noqa: S311 - repeatable, not secret
    if not _takes_back(promise) or random.randrange(LEFT_BEHIND_ONE_IN):
        return None
    hosts = draw.network.hosts
    host = hosts[0] if random.random() < 0.75 else random.choice(hosts)
    others = random.sample([other for other in hosts if other != host], k=min(2, len(hosts) - 1))
    messages, interval_ms = random.randint(20, 40), float(random.choice((50, 100, 200)))
    nth, gone_ms = random.randint(1, 3), float(random.randint(*LEFT_BEHIND_MS))
    at_ms = (nth - 1) * (1 + len(others)) * interval_ms
    minority = _draw_minority(draw.network, host, random)
    faults: list[AnyFault]
    if minority and random.random() < 0.5:
        faults = [vocabulary.Partition(at_ms=at_ms, sides=(minority,)), vocabulary.Heal(at_ms=at_ms + gone_ms)]
    else:
        died = Trigger("deliver", host=host, origin=host, sequence=nth)
        faults = [vocabulary.Crash(when=died, host=host), vocabulary.Restart(at_ms=at_ms + gone_ms, host=host)]
    return _LeftBehind((host, *others), messages, interval_ms, faults)


def _draw_minority(network: Network, host: str, random: Random) -> tuple[str, ...]:
    """The switch of a host and perhaps others, with less than half of all hosts; none if that switch alone has too many."""
    side: tuple[str, ...] = ()
    near = network.access_switch(host)
    for switch in (near, *random.sample(network.switches, k=len(network.switches))):
        wider = tuple(dict.fromkeys((*side, switch)))
        beside = [other for other in network.hosts if network.access_switch(other) in wider]
        if 2 * len(beside) < len(network.hosts) and (switch == near or random.random() < 0.5):
            side = wider
    return side if near in side else ()


def _draw_dead(draw: _Draw) -> tuple[str, ...]:
    """Hosts to die for good, from one to all but one: any hosts, or all hosts of some switches."""
    hosts = draw.network.hosts
    if draw.random.random() < 0.5:
        side = _draw_side(draw)
        beside = tuple(host for host in hosts if draw.network.access_switch(host) in side)
        if beside:
            return beside
    return tuple(draw.random.sample(hosts, k=draw.random.randint(1, len(hosts) - 1)))


def _deaths(draw: _Draw, dead: tuple[str, ...], sources: tuple[str, ...], messages: int) -> Iterator[AnyFault]:
    """How hosts die for good: before the first broadcast, at any time, or in the middle of one.

    In half of the cases all die because of the same message: each when it has delivered the message, or sent its n-th datagram about it.
    """
    together = draw.random.random() < 0.5
    origin, sequence = draw.random.choice(sources), draw.random.randint(1, -(-messages // len(sources)))
    for host in dead:
        nth = draw.random.randint(1, 2 * len(draw.network.hosts))
        delivers, sends = Trigger("deliver", host=host), Trigger("send", host=host, nth=nth)
        when = draw.random.choice((delivers, delivers, sends) if together else (None, None, delivers, sends))
        if when is None:
            yield vocabulary.Crash(at_ms=draw.random.choice((0.0, draw.moment())), host=host)
        elif together:
            yield vocabulary.Crash(when=msgspec.structs.replace(when, origin=origin, sequence=sequence), host=host)
        else:
            yield vocabulary.Crash(when=msgspec.structs.replace(when, nth=nth), host=host)


def _copy_ms(network: Network, core: type[Core]) -> float:
    """How long the narrowest link would take to carry all copies of a message."""
    narrowest = min((link.bandwidth_mbit for link in network.links if link.bandwidth_mbit), default=float("inf"))
    return core.most_copies(len(network.hosts)) * BITS_OF_A_COPY / narrowest / 1000


def _draw_topology(random: Random, without: frozenset[str]) -> tuple[str, list[str]]:
    """A small network, written as on the command line, and the impairments that its expensive links have."""
    drawn = {kind: random.choice(values) for kind, values in _LINK_OPTIONS.items() if random.random() < 0.3}
    options = {kind: value for kind, value in drawn.items() if kind not in without}
    if random.random() < 0.5:
        shape = random.choice(("line", "ring", "star", "mesh"))
        text = f"clusters:k={random.randint(2, 4)},size={random.randint(1, 3)},shape={shape}"
    else:
        text = f"grid:rows=2,cols={random.randint(1, 3)},hosts={random.randint(1, 2)}"
    return ",".join([text, *(f"{kind}={value}" for kind, value in options.items())]), list(options)
