"""Flow control (section 3.3 of the fourth paper, there 3.2): the fields local, localC, global and globalC of the token.

A host whose buffer is nearly full says so in the token, with its cycle; so does an owner that finds too many messages in the system state.
The paper's "will not send any message to node x" has no meaning where one datagram reaches everybody. Here a message waits at its source
while one of its destinations has said that its buffer is nearly full; those behind it wait too, so that each source keeps its order.

The paper asks that nobody sends more between two turns of a host than the buffer of that host can hold, and does not say how. Here a host
sends at most a window of messages between two of its own turns.
"""

from hostagent.protocols.counter.parameters import CounterParameters
from hostagent.protocols.counter.state import TokenState


class Flow:
    """Whether one host may send."""

    def __init__(self, parameters: CounterParameters) -> None:
        self._parameters = parameters
        self._full: dict[int, int] = {}
        """The hosts that messages are not sent to, each with the cycle in which it said that its buffer is nearly full."""
        self._overload = 0
        """The cycle in which the network was found overloaded; 0 if it is not."""
        self._sent = 0
        """Messages since this host had the token."""

    def may_send(self, to: int) -> bool:
        """Whether a message may be sent to these hosts now."""
        if not self._parameters.flow_control:
            return True
        return not self._overload and self._sent < self._parameters.window and not any(to >> place & 1 for place in self._full)

    def sent(self) -> None:
        """A message was sent."""
        self._sent += 1

    def turn(self) -> None:
        """This host has had the token."""
        self._sent = 0

    def hear(self, state: TokenState) -> None:
        """Stop for whom the token says so; go on where a token of a later cycle does not say so any more."""
        said = dict(state.local)
        self._full = said | {place: cycle for place, cycle in self._full.items() if place not in said and state.cycle <= cycle}
        if state.overload or state.cycle > self._overload:
            self._overload = state.overload

    def restart(self) -> None:
        """There is a new list: all fields are reset."""
        self._full, self._overload = {}, 0

    def fields(self, state: TokenState, me: int, undone: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """The fields that an owner passes on, which has or lacks this many messages without having committed them."""
        if not self._parameters.flow_control:
            return (), 0
        local = {place: cycle for place, cycle in state.local if place != me}
        if 4 * undone >= 3 * self._parameters.buffer:
            local[me] = state.cycle
        recorded = sum(count for entry in state.entries for count, _ in entry.runs)
        return tuple(sorted(local.items())), state.cycle if recorded >= self._parameters.overload else 0
