"""The verbs of a network that is up, typed in its own command line or in another terminal.

A verb takes its words and a `Live` network, acts, and returns its answer as text. Wrong words raise a `FaultError` with the usage.
"""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from scenarios import faults as vocabulary
from scenarios.faults import LINK_PROPERTIES, AnyFault, FaultError, link_named
from scenarios.scenario import LARGEST_MESSAGE
from testbed.live import views, wireshark
from topologies import Network
from topologies.properties import PROPERTIES
from topologies.units import bandwidth_mbit, share, time_ms

if TYPE_CHECKING:
    from testbed.live.session import Live

Words = list[str]
SHORTEST_STREAM_MS = 1.0


@dataclass(frozen=True)
class Verb:
    """A verb. `names` is `hosts`, `switches` or `links`: the names of the network that complete its words."""

    usage: str
    help: str
    act: Callable[["Live", Words], str]
    names: str = ""


def do(live: "Live", line: str) -> str:
    """Execute a line with a verb and return the answer."""
    words = _split(line)
    if not words:
        return ""
    verb = VERBS.get(words[0])
    if verb is None:
        raise FaultError(f"there is no verb {words[0]!r}: choose from {', '.join(VERBS)}")
    try:
        return verb.act(live, words[1:])
    except (ValueError, IndexError) as error:
        if isinstance(error, FaultError):
            raise
        told = f"{error}; write" if isinstance(error, ValueError) and str(error) else "write"
        raise FaultError(f"{told} {verb.usage}") from None


def _split(line: str) -> Words:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise FaultError(f"{line!r}: {error}") from None


def _inject(make: Callable[[Network, Words], AnyFault]) -> Callable[["Live", Words], str]:
    """The action of a verb that makes a fault from its words and injects it."""

    def act(live: "Live", words: Words) -> str:
        return live.inject(make(live.network, words))

    return act


def _take_link(network: Network, words: Words) -> tuple[str, str]:
    """Remove a link from the words: `s1 s2`, `s1-s2` or, for one direction, `s1->s2`. Returns its name and the end of the direction."""
    first = words.pop(0)
    source, arrow, target = first.partition("->")
    if not arrow:
        source, dash, target = first.partition("-")
        target = target if dash else words.pop(0)
    return link_named(network, f"{source}-{target}").name, target if arrow else ""


def _both_ways(network: Network, words: Words) -> str:
    """Remove a link from the words; one direction of a link is refused."""
    link, towards = _take_link(network, words)
    if towards:
        raise ValueError("this verb acts on both directions of a link")
    return link


def _nothing_more(words: Words) -> None:
    if words:
        raise ValueError(f"unexpected {' '.join(words)!r}")


def _end(words: Words, fault: AnyFault) -> AnyFault:
    _nothing_more(words)
    return fault


def _lose(network: Network, words: Words) -> AnyFault:
    link, towards = _take_link(network, words)
    return _end(words, vocabulary.LinkChange(link=link, towards=towards, loss=share(words.pop(0))))


def _slow(network: Network, words: Words) -> AnyFault:
    link, towards = _take_link(network, words)
    return _end(words, vocabulary.LinkChange(link=link, towards=towards, bandwidth_mbit=bandwidth_mbit(words.pop(0))))


_CHANGES = {name: known for name, known in PROPERTIES.items() if known.field in LINK_PROPERTIES}


def _change(network: Network, words: Words) -> AnyFault:
    link, towards = _take_link(network, words)
    if not words:
        raise IndexError
    values: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in _CHANGES:
            raise ValueError(f"{word!r} is not a property of links: choose from {', '.join(_CHANGES)}")
        values[_CHANGES[key].field] = _CHANGES[key].parse(value)
    return vocabulary.LinkChange(link=link, towards=towards, **values)


def _flap(network: Network, words: Words) -> AnyFault:
    link = _both_ways(network, words)
    names = ("times", "down_ms", "up_ms")
    readers: tuple[Callable[[str], float], ...] = (int, time_ms, time_ms)
    values: dict[str, Any] = {name: read(words.pop(0)) for name, read in zip(names, readers, strict=True) if words}
    return _end(words, vocabulary.Flap(link=link, **values))


def _partition(_: Network, words: Words) -> AnyFault:
    if not words:
        raise IndexError
    sides = tuple(tuple(side.replace(",", " ").split()) for side in " ".join(words).split("|"))
    return vocabulary.Partition(sides=sides)


def _on_host(kind: Callable[..., AnyFault]) -> Callable[[Network, Words], AnyFault]:
    return lambda _, words: _end(words[1:], kind(host=words[0]))


def _restart(_: Network, words: Words) -> AnyFault:
    host, storage = words.pop(0), words.pop(0) if words else "kept"
    if storage not in {"kept", "lost"}:
        raise ValueError(f"storage is kept or lost, not {storage!r}")
    return _end(words, vocabulary.Restart(host=host, storage="lost" if storage == "lost" else "kept"))


def _switch(_: Network, words: Words) -> AnyFault:
    switch = words.pop(0)
    return _end(words[1:], _either(words[0], vocabulary.SwitchStop, vocabulary.SwitchStart, ("stop", "start"))(switch=switch))


def _controller(_: Network, words: Words) -> AnyFault:
    return _end(words[1:], _either(words[0], vocabulary.ControllerStop, vocabulary.ControllerStart, ("stop", "start"))())


def _link(network: Network, words: Words) -> AnyFault:
    """The fault for Mininet's verb `link`."""
    link = _both_ways(network, words)
    return _end(words[1:], _either(words[0], vocabulary.LinkDown, vocabulary.LinkUp, ("down", "up"))(link=link))


def _either(
    word: str, first: Callable[..., AnyFault], second: Callable[..., AnyFault], names: tuple[str, str]
) -> Callable[..., AnyFault]:
    if word not in names:
        raise ValueError(f"{word!r} is neither {names[0]} nor {names[1]}")
    return first if word == names[0] else second


def _any_fault(_: Network, words: Words) -> AnyFault:
    try:
        fault: AnyFault = msgspec.convert(dict(word.split("=", 1) for word in words), type=AnyFault, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{error}; the faults are {', '.join(vocabulary.FAULTS)}") from None
    return fault


def _broadcast(live: "Live", words: Words) -> str:
    host, payload = words[0], _payload(words[1:])
    live.broadcast(host, payload)
    return f"{host} broadcasts {len(payload)} bytes"


def _multicast(live: "Live", words: Words) -> str:
    host, to, payload = words[0], words[1], _payload(words[2:])
    live.broadcast(host, payload, to)
    return f"{host} sends {len(payload)} bytes to {to}"


def _payload(words: Words) -> bytes:
    payload = " ".join(words).encode()
    if len(payload) > LARGEST_MESSAGE:
        raise ValueError(f"a message has at most {LARGEST_MESSAGE} bytes")
    return payload


def _group(live: "Live", words: Words) -> str:
    name, members = words.pop(0), tuple(words.pop(0).split(","))
    _nothing_more(words)
    live.make_group(name, members)
    return f"group {name}: {', '.join(members)}"


def _of_group(kind: Callable[..., AnyFault]) -> Callable[[Network, Words], AnyFault]:
    return lambda _, words: _end(words[2:], kind(host=words[0], group=words[1]))


def _stream(live: "Live", words: Words) -> str:
    interval_ms = 0.0 if words[0] == "off" else time_ms(words[0])
    if words[0] != "off" and interval_ms < SHORTEST_STREAM_MS:
        raise ValueError(f"a host cannot broadcast a message every {words[0]}: {SHORTEST_STREAM_MS:g}ms is the shortest interval")
    live.stream(interval_ms)
    return "no stream" if words[0] == "off" else f"a message every {words[0]}"


def _sleep(_: "Live", words: Words) -> str:
    time.sleep(time_ms(words[0]) / 1000)
    return ""


def _tree(live: "Live", words: Words) -> str:
    return views.tree(live.snapshot(), words[0] if words else "")


def _status(live: "Live", words: Words) -> str:
    _nothing_more(words)
    return views.status(live.snapshot())


def _costs(live: "Live", words: Words) -> str:
    _nothing_more(words)
    return views.costs(live.snapshot())


def _capture(live: "Live", words: Words) -> str:
    link = link_named(live.network, _both_ways(live.network, words)) if words else None
    return live.captures(link)


def _wireshark(live: "Live", words: Words) -> str:
    link = link_named(live.network, _both_ways(live.network, words))
    _nothing_more(words)
    return wireshark.show(live.interface(link), live.private, live.network.hosts)


VERBS: dict[str, Verb] = {
    "fail": Verb(
        "fail s1 s2", "take a link down", _inject(lambda n, w: _end(w, vocabulary.LinkDown(link=_both_ways(n, w)))), "links"
    ),
    "heal": Verb(
        "heal s1 s2",
        "bring a link up again, as it was built",
        _inject(lambda n, w: _end(w, vocabulary.Heal(link=_both_ways(n, w)))),
        "links",
    ),
    "healall": Verb("healall", "bring every link up again, as it was built", _inject(lambda _, w: _end(w, vocabulary.Heal()))),
    "lose": Verb(
        "lose s1 s2 10% or, one way, lose s1->s2 100%", "make a link lose this share of packets", _inject(_lose), "links"
    ),
    "slow": Verb("slow s1 s2 500kbit, or one way s1->s2", "change the bandwidth of a link", _inject(_slow), "links"),
    "change": Verb(
        f"change s1 s2 KEY=VALUE..., with {', '.join(_CHANGES)}", "change properties of a link", _inject(_change), "links"
    ),
    "flap": Verb(
        "flap s1 s2 [TIMES [DOWN [UP]]], such as flap s1 s2 3 200ms 1s",
        "take a link down and up several times",
        _inject(_flap),
        "links",
    ),
    "partition": Verb("partition s1,s2 | s3,s4", "take down every link between the sides", _inject(_partition), "switches"),
    "crash": Verb("crash h3", "kill the agent of a host", _inject(_on_host(vocabulary.Crash)), "hosts"),
    "restart": Verb("restart h3 [lost]", "start the agent again, with its storage or without", _inject(_restart), "hosts"),
    "pause": Verb("pause h3", "pause the agent of a host", _inject(_on_host(vocabulary.Pause)), "hosts"),
    "resume": Verb("resume h3", "let a paused agent continue", _inject(_on_host(vocabulary.Resume)), "hosts"),
    "switch": Verb("switch s1 stop, or start", "stop a switch, or start it again", _inject(_switch), "switches"),
    "controller": Verb("controller stop, or start", "stop the controller, or start it again", _inject(_controller)),
    "link": Verb("link s1 s2 down, or up", "take a link down or up, as in Mininet", _inject(_link), "links"),
    "fault": Verb(
        "fault fault=drop-message host=h3 kind=Copy", "any fault that a scenario can have, field by field", _inject(_any_fault)
    ),
    "broadcast": Verb("broadcast h1 hello", "make a host broadcast a message", _broadcast, "hosts"),
    "multicast": Verb(
        "multicast h1 alpha hello, or multicast h1 h2,h3 hello",
        "make a host send a message to a group, or to some hosts",
        _multicast,
        "hosts",
    ),
    "group": Verb("group alpha h1,h2", "make a new group of hosts", _group),
    "join": Verb("join h3 alpha", "make a host ask to be in a group", _inject(_of_group(vocabulary.Join)), "hosts"),
    "leave": Verb("leave h3 alpha", "make a host ask to leave a group", _inject(_of_group(vocabulary.Leave)), "hosts"),
    "depart": Verb("depart h3", "stop the agent of a host cleanly and for good", _inject(_on_host(vocabulary.Depart)), "hosts"),
    "stream": Verb("stream 50ms, or stream off", "set the interval of the stream of broadcasts", _stream),
    "tree": Verb("tree [h1]", "show the parent graph", _tree, "hosts"),
    "status": Verb("status", "show hosts and links", _status),
    "costs": Verb("costs", "show expensive packets so far, by link and per message", _costs),
    "capture": Verb("capture [s1 s2]", "write the captures to disk, and print their files", _capture, "links"),
    "wireshark": Verb("wireshark s1 s2", "open Wireshark on a link, or print the command for it", _wireshark, "links"),
    "sleep": Verb("sleep 5s", "wait (for scripts)", _sleep),
}
"""Every verb by its name."""
