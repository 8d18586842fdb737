"""The verbs of a network that is up: what is typed, in its own command line or from another terminal, and what it means.

A verb takes its words and a `Live` network, acts, and gives its answer as text. Wrong words raise a `FaultError` that says how to write it.
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
from testbed.live import views
from topologies import Network
from topologies.properties import PROPERTIES
from topologies.units import bandwidth_mbit, share, time_ms

if TYPE_CHECKING:
    from testbed.live.session import Live

Words = list[str]
SHORTEST_STREAM_MS = 1.0


@dataclass(frozen=True)
class Verb:
    """`usage` names the words; `hosts`, `switches` or `links` says which names of the network complete them."""

    usage: str
    help: str
    act: Callable[["Live", Words], str]
    names: str = ""


def do(live: "Live", line: str) -> str:
    """Do what a line says; the answer."""
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
    """A verb that makes a fault of its words and injects it."""

    def act(live: "Live", words: Words) -> str:
        return live.inject(make(live.network, words))

    return act


def _take_link(network: Network, words: Words) -> tuple[str, str]:
    """Take a link off the words, written `s1 s2`, `s1-s2` or, for one way, `s1->s2`; its name and the end that it leads towards."""
    first = words.pop(0)
    source, arrow, target = first.partition("->")
    if not arrow:
        source, dash, target = first.partition("-")
        target = target if dash else words.pop(0)
    return link_named(network, f"{source}-{target}").name, target if arrow else ""


def _both_ways(network: Network, words: Words) -> str:
    """Take a link that is not meant one way."""
    link, towards = _take_link(network, words)
    if towards:
        raise ValueError("this is done to both ways of a link")
    return link


def _nothing_more(words: Words) -> None:
    if words:
        raise ValueError(f"{' '.join(words)!r} is more than is needed")


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
            raise ValueError(f"{word!r} changes nothing: there are {', '.join(_CHANGES)}")
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
    """Mininet's own verb."""
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
    host, payload = words[0], " ".join(words[1:]).encode()
    if len(payload) > LARGEST_MESSAGE:
        raise ValueError(f"a message has at most {LARGEST_MESSAGE} bytes")
    live.broadcast(host, payload)
    return f"{host} broadcasts {len(payload)} bytes"


def _stream(live: "Live", words: Words) -> str:
    interval_ms = 0.0 if words[0] == "off" else time_ms(words[0])
    if words[0] != "off" and interval_ms < SHORTEST_STREAM_MS:
        raise ValueError(f"a message every {words[0]} is more than a host can broadcast: {SHORTEST_STREAM_MS:g}ms is the least")
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


VERBS: dict[str, Verb] = {
    "fail": Verb("fail s1 s2", "pull a link", _inject(lambda n, w: _end(w, vocabulary.LinkDown(link=_both_ways(n, w)))), "links"),
    "heal": Verb(
        "heal s1 s2",
        "plug a link in again, as it was built",
        _inject(lambda n, w: _end(w, vocabulary.Heal(link=_both_ways(n, w)))),
        "links",
    ),
    "healall": Verb("healall", "every link as it was built", _inject(lambda _, w: _end(w, vocabulary.Heal()))),
    "lose": Verb("lose s1 s2 10% or, one way, lose s1->s2 100%", "lose this share of packets", _inject(_lose), "links"),
    "slow": Verb("slow s1 s2 500kbit, or one way s1->s2", "change the bandwidth of a link", _inject(_slow), "links"),
    "change": Verb(
        f"change s1 s2 KEY=VALUE..., with {', '.join(_CHANGES)}", "change what a link does to packets", _inject(_change), "links"
    ),
    "flap": Verb(
        "flap s1 s2 [TIMES [DOWN [UP]]], such as flap s1 s2 3 200ms 1s", "pull a link again and again", _inject(_flap), "links"
    ),
    "partition": Verb("partition s1,s2 | s3,s4", "pull every link between the sides", _inject(_partition), "switches"),
    "crash": Verb("crash h3", "kill the agent of a host", _inject(_on_host(vocabulary.Crash)), "hosts"),
    "restart": Verb("restart h3 [lost]", "start it again, with its storage or without", _inject(_restart), "hosts"),
    "pause": Verb("pause h3", "have the agent of a host stand still", _inject(_on_host(vocabulary.Pause)), "hosts"),
    "resume": Verb("resume h3", "let it go on", _inject(_on_host(vocabulary.Resume)), "hosts"),
    "switch": Verb("switch s1 stop, or start", "stop a switch, or start it again", _inject(_switch), "switches"),
    "controller": Verb("controller stop, or start", "stop the controller, or start it again", _inject(_controller)),
    "link": Verb("link s1 s2 down, or up", "Mininet's way to pull a link or plug it in", _inject(_link), "links"),
    "fault": Verb(
        "fault fault=drop-message host=h3 kind=Copy", "any fault of the vocabulary, field by field", _inject(_any_fault)
    ),
    "broadcast": Verb("broadcast h1 hello", "have a host broadcast a message", _broadcast, "hosts"),
    "stream": Verb("stream 50ms, or stream off", "how often the source broadcasts by itself", _stream),
    "tree": Verb("tree [h1]", "the parent graph now", _tree, "hosts"),
    "status": Verb("status", "hosts and links now", _status),
    "costs": Verb("costs", "expensive packets so far, by link and per message", _costs),
    "capture": Verb("capture [s1 s2]", "write the captures out, and say where they are", _capture, "links"),
    "sleep": Verb("sleep 5s", "wait, in a script", _sleep),
}
"""Every verb, as it is typed."""
