"""The messages that a host broadcasts: sent when flow control allows it, and added to the token when it comes."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import Destination, Purpose
from hostagent.parts.tokens.places import places, set_of
from hostagent.protocols.counter.datalist import DataList
from hostagent.protocols.counter.flow import Flow
from hostagent.protocols.counter.messages import Msg
from hostagent.protocols.counter.state import ENTRY_BYTES, MOST_MESSAGES, MOST_RUNS, RUN_BYTES, Entry


class Outbox(Part):
    """The messages of this host that it has not committed yet."""

    def __init__(self, env: Environment, flow: Flow, data: DataList, *, in_turn: bool) -> None:
        super().__init__(env)
        self._in_turn = in_turn
        """Whether messages wait until this host passes the token on."""
        self._flow = flow
        self._data = data
        self._me = env.hosts.index(env.host)
        self._own: dict[int, tuple[int, int, int]] = {}
        """By number: destinations, group, and which of the messages to the group it is."""
        self._sent = self._before_turn = 0
        """The last message that was sent, and the last that was sent before this host got the token."""
        self.attached = 0
        """The last message that was added to the token."""
        self._restarted = False

    def on_start(self, stored: Mapping[str, Any]) -> None:
        """Restore the messages. Which of them were sent is not known."""
        own = {int(key.removeprefix("own/")): tuple(value) for key, value in stored.items() if key.startswith("own/")}
        self._own = dict(sorted(own.items()))
        self._restarted = bool(own)

    def go_on_from(self, attached: int) -> None:
        """Messages up to this number are in the token, or were committed; those after it are not."""
        self.attached = attached
        # After a restart, what is not in the token is sent again; else whoever lacks it will ask.
        self._sent = max(self._sent, attached)

    def take(self, to: Destination, number: int, payload: bytes) -> None:
        """The application broadcasts: send the message now, or when flow control allows it."""
        own = self._own[number] = set_of(to.hosts, self.env.hosts), to.group, to.nth
        self.env.store(f"own/{number}", own)
        self._data.keep(self.env.host, number, payload)
        self.send()

    def send(self) -> None:
        """Send the messages that flow control allows now, in their order; or leave that to the end of the next turn."""
        if not self._in_turn:
            self._send()

    def _send(self) -> None:
        while (number := self._sent + 1) in self._own:
            to, group, nth = self._own[number]
            payload = self._data.find(self.env.host, number)
            if payload is None or not self._flow.may_send(to):
                return
            self._flow.sent()
            self._sent = number
            destination = Destination(group, places(to, self.env.hosts), nth)
            purpose = Purpose.REPAIR if self._restarted else Purpose.DATA
            self.env.multicast_to(destination, Msg(group, self.env.host, number, payload), purpose)
        self._restarted = False

    @property
    def is_waiting(self) -> bool:
        """Whether there are messages that are not in the token yet."""
        return self._sent > self.attached or self._sent + 1 in self._own

    @property
    def unsent(self) -> int:
        """How many messages wait for flow control."""
        return next(reversed(self._own)) - self._sent if self._own else 0

    def has_told(self, place: int) -> bool:
        """Whether the last message that was sent went to this host."""
        return self._sent > self.attached and self._sent in self._own and bool(self._own[self._sent][0] >> place & 1)

    def begin_turn(self) -> None:
        """This host has got the token: what it sends from now on belongs to its next cycle."""
        self._before_turn = self._sent

    def attach(self, position: int, room: int) -> list[Entry]:
        """The entry for what this host sent before its turn, in so many bytes; nothing if it sent nothing, or if there is no room.

        A host that sends in turn does so now, right before the token.
        """
        if self._in_turn:
            self._send()
            self._before_turn = self._sent
        # A host that lost its storage does not know messages that the token has.
        sent = range(self.attached + 1, min(self._before_turn, self.attached + MOST_MESSAGES - 1) + 1)
        numbers = [number for number in sent if number in self._own]
        most = min(MOST_RUNS, max(room - ENTRY_BYTES, 0) // RUN_BYTES)
        runs = [(len(list(same)), to) for to, same in groupby(self._own[number][0] for number in numbers)][:most]
        if not runs:
            return []
        entry = Entry(position, self._me, numbers[0], tuple(runs), 1 << self._me)
        self.attached = entry.last
        return [entry]

    def forget(self, before: int, done: int) -> None:
        """The messages after `before` and up to `done` are committed."""
        for number in range(before + 1, done + 1):
            if self._own.pop(number, None) is not None:
                self.env.store(f"own/{number}", None)
