"""The token goes round: numbering, requests, flow control, and what to do when the token does not come back.

Only the holder of the token sends, and numbers what it sends on from the token's `seq`. `aru` works as in the paper: a member that has
less lowers it, and only that member raises it again. A number that was no higher than `aru` on two visits in a row is *safe*: all members
have the message.

A message is asked for when a later one has arrived, or when the token has come again and it is still not there: a token may overtake what
was just sent. Requests name the member that lacks a message, so that a repair is one packet to that member or, if half of the ring lacks
it on a network that multicasts, one to all.

A lost token. Whoever has passed the token on waits for a sign of progress: the token, or a message with a higher number. If none comes in
time, it passes the same token on again. A member that is passed a token which it has passed on itself does so again too, however long it
would wait itself. So the token is revived where it was lost, whoever was the first to become impatient, and a lost token costs about two
rotations. The time-out follows the rotations that were seen and not disturbed (`hostagent.parts.round_trips`). When `TRIES` attempts have
failed, the ring has lost a member.

A token that nobody needs. When the token has come back twice to the member that was the last to send and nobody else had anything to
send, that member may keep it: for `keep_ms` while it sends, and while nobody does for so long that the ring sends
`idle_packets_per_second`. While it sends, it sends no more often than a token that goes round would let it, unless a datagram is full; so
messages still share datagrams. All others know who keeps the token from having seen it pass, and send that member a `Wake` when they want
the token, because of a message or of a gap. The host with the token passes it on at once then, and also when it is passed the token that it
keeps once more.
"""

from typing import Final, Protocol

from msgspec.structs import replace

from hostagent.contract.core import Part
from hostagent.contract.environment import Environment
from hostagent.contract.messages import EVERYBODY, Message, Purpose
from hostagent.parts.round_trips import SHORTEST_WAIT_S, RoundTrips
from hostagent.protocols.totem.messages import MOST_REQUESTS, Data, Request, Token, Wake
from hostagent.protocols.totem.parameters import TRIES, TotemParameters
from hostagent.protocols.totem.ring import Ring

FEWEST: Final = 16
"""Messages that a host may send in a rotation, however many were lost: with short messages one datagram to each host."""
MOST_NUMBERS: Final = 1 << 31
"""A ring with so many messages, or a token that was passed on so often, is given up for a new one, whose numbers start again."""
ROUND: Final = "round"
"""The name under which the times of rotations are kept."""
UNMEASURED: Final = 3
"""After so many rotations in a row in which the token was passed on again, the time of one counts all the same: it may be the network."""


class Owner(Protocol):
    """What the rotation asks of the protocol."""

    is_operational: bool
    """Whether the view of the ring is installed here."""

    def waiting(self) -> int:
        """How many messages wait to be sent on the ring."""

    def filled(self) -> float:
        """Which part of a datagram the waiting messages fill."""

    def take(self, ring: int, number: int) -> Data:
        """The next message that waits, with its number on the ring."""

    def recovering(self) -> int:
        """How many messages of older rings wait to be sent here."""

    def visited(self, token: Token) -> None:
        """The token is here, and the ring knows what is safe."""

    def arrived(self) -> None:
        """A message of the ring has arrived, or was sent from here."""

    def lost(self) -> None:
        """The token is lost for good."""


class Rotation(Part):
    """The token of one ring after another, at one member."""

    messages = (Token, Wake)

    def __init__(self, env: Environment, parameters: TotemParameters, core: Owner) -> None:
        super().__init__(env)
        self._parameters = parameters
        self._core = core
        self._idle_s = parameters.idle_s(len(env.hosts))
        self._forget_times()
        self._allowance = 2 * FEWEST
        """Messages that this host may send in a rotation: doubled as long as nothing is lost, halved when something is."""
        self.ring = Ring(0, ())
        self.token: Token | None = None
        """The token, while this host holds it."""
        self._reset()

    def _forget_times(self) -> None:
        self._trips = RoundTrips(self._parameters.longest_wait_ms / 1000, self._parameters.first_wait_ms / 1000)
        self.round_s = 0.0
        """The mean time of a rotation, smoothed; 0 as long as none was seen."""
        self._unmeasured = UNMEASURED
        """Rotations in a row whose times did not count."""

    def _reset(self) -> None:
        self._passed: Token | None = None
        self._passed_s = self._passed_again_s = self._held_s = 0.0
        self._first_s = self._sent_s = 0.0
        """When the first and the last message were sent since the token is here."""
        self._hop = 0
        """The hop of the last token that was taken."""
        self._tries = 0
        self._is_revived = False
        """Whether this host was passed its last token again."""
        self._is_timed = False
        """Whether the token is expected back without anybody keeping it."""
        self._kept_by = ""
        """The member that keeps the token, as far as this host knows."""
        self._sent = self._backlog = self._recovering = 0
        """What this host has added to the token: messages sent in the last rotation, and messages waiting."""
        self._safe_before = 0
        self._alarmed = False
        """Whether the member that keeps the token was asked for it."""
        self._seen = 0
        """The number of the last message, as the token said on its last visit."""

    def begin(self, ring: Ring, *, is_known: bool) -> None:
        """This host is in a new ring, and waits for its token. If all its members are known, rotations take no longer than before."""
        self.stop()
        self.ring = ring
        if not is_known:
            self._forget_times()
        self.env.set_timer("token", self.wait_s)

    def stop(self) -> None:
        """The ring is over."""
        if self.token is not None:
            self.token = None
            self.env.trace("token", generation=self.ring.code, held=False)
        for name in ("token", "hold", "pace", "wake"):
            self.env.cancel_timer(name)
        self._reset()

    @property
    def wait_s(self) -> float:
        """How long a rotation may take."""
        return self._trips.wait_s(ROUND)

    def make_token(self) -> None:
        """The representative makes the first token of a ring."""
        host = self.env.host
        self._take(Token(EVERYBODY, host, 0, self.ring.code, 1, 0, 0, "", 0, 0, 0, host, 0))

    def nudge(self) -> None:
        """There is something to send: send it if the token is here, or ask for the token if somebody keeps it."""
        if self.token is not None:
            self._send_kept()
        elif self._kept_by and not self._alarmed:
            self._ask()

    def on_message(self, sender: str, message: Message, expensive: bool) -> None:  # noqa: ARG002 - the cost bit is of no use here
        """A token of this ring, or somebody who wants it."""
        match message:
            case Token() if message.hop > self._hop and sender in self.ring.members:
                if max(message.hop, message.seq) < MOST_NUMBERS:
                    self._take(message)
                else:
                    self._core.lost()
            case Token() if message.hop == self._hop:
                self._revive()
            case Wake() if self.token is not None:
                self._release()

    def on_data(self, sender: str, data: Data) -> bool:
        """A message of this ring has arrived; whether it is new. A number above those of the token that was passed on shows progress."""
        is_new = self.ring.add(data.number, data)
        if self._passed is not None and self.token is None and data.number > self._passed.seq:
            self._tries = 0
            if sender != self._kept_by:
                self._kept_by = ""
            self._expect()
        if self._kept_by and not self._alarmed and self.ring.aru < data.number:
            # What is missing may only be late.
            self.env.set_timer("wake", SHORTEST_WAIT_S)
        if is_new:
            self._core.arrived()
        return is_new

    def on_timer(self, name: str) -> None:
        """The token was held for long enough, or did not come back in time."""
        match name:
            case "token":
                self._again()
            case "hold":
                self._release()
            case "pace":
                self._sent_s = 0.0
                self._send_kept()
            case "wake" if self._kept_by and not self._alarmed and self.ring.received.beyond:
                self._ask()

    # --- a visit of the token

    def _take(self, token: Token) -> None:
        self._measure()
        self._hop, self._tries, self._is_revived, self._kept_by, self._alarmed = token.hop, 0, False, "", False
        self._held_s = self.env.now()
        for name in ("token", "wake"):
            self.env.cancel_timer(name)
        self.env.trace("token", generation=token.ring, held=True)
        turns = min(token.turns + 1, 2) if token.last == self.env.host else token.turns
        missing = self._repair(token)
        aru, aru_by = self._lower_or_raise(token)
        passed_aru = self._passed.aru if self._passed is not None else 0
        self._safe_before, self.ring.safe = self.ring.safe, max(self.ring.safe, min(passed_aru, aru))
        self.token = replace(token, aru=aru, aru_by=aru_by, turns=turns, missing=missing)
        self._adapt(losses=bool(token.missing))
        if not self._core.is_operational:
            # Nobody keeps the token of a ring that is still in recovery somewhere.
            self.token = replace(self.token, turns=0)
        self._core.visited(self.token)
        self._send(self._share(self.token))
        self._keep_or_pass()

    def _measure(self) -> None:
        """The token has come back: how long that took, if nobody kept it and, as far as this host knows, nobody passed it on again."""
        counts = self._passed is not None and self._is_timed
        if counts and (not (self._tries or self._is_revived) or self._unmeasured >= UNMEASURED):
            now_s = self.env.now()
            took_s = min(max(now_s - self._passed_s, 0.0), self._parameters.longest_wait_ms / 1000)
            self.round_s = (7 * self.round_s + took_s) / 8 if self.round_s else took_s
            self._trips.answered(ROUND, now_s)
            self._unmeasured = 0
        elif counts:
            self._unmeasured += 1

    def _repair(self, token: Token) -> tuple[Request, ...]:
        """Send what others lack and this host has; what remains of the requests, and those of this host."""
        left: list[Request] = []
        wanted: dict[int, list[str]] = {}
        for first, last, place in token.missing:
            host, number, last = self.env.hosts[place], first, min(last, token.seq)  # noqa: PLW2901 - a request for more is forged
            if host == self.env.host or host not in self.ring.members:
                continue
            while number <= last and number in self.ring.messages and len(wanted) < self._parameters.max_messages:
                wanted.setdefault(number, []).append(host)
                number += 1
            if number <= last:
                left.append((number, last, place))
        for number, hosts in wanted.items():
            data = self.ring.messages[number]
            if self.env.multicasts and 2 * len(hosts) >= len(self.ring.members):
                self._send_to_ring(data, Purpose.REPAIR)
            else:
                for host in hosts:
                    self.env.send(host, data, Purpose.REPAIR)
        own = self.env.hosts.index(self.env.host)
        left += [(first, last, own) for first, last in self.ring.missing(self._overdue(token))]
        return tuple(left[:MOST_REQUESTS])

    def _overdue(self, token: Token) -> int:
        """Up to which number messages should be here. The token may overtake messages that were just sent."""
        seen, self._seen = self._seen, token.seq
        return min(max(seen, self.ring.received.highest), token.seq)

    def _lower_or_raise(self, token: Token) -> tuple[int, str]:
        """The paper's rule for `aru` and who lowered it."""
        own = self.ring.aru
        if own < token.aru or token.aru_by == self.env.host:
            return own, "" if own == token.seq else self.env.host
        return token.aru, token.aru_by

    def _adapt(self, *, losses: bool) -> None:
        """Slow down when something was lost, which is what a full queue of a link looks like."""
        if losses:
            self._allowance = max(self._allowance // 2, FEWEST)
        elif self._sent >= self._allowance:
            self._allowance = min(2 * self._allowance, self._parameters.window_size)

    def _share(self, token: Token) -> int:
        """How many messages this host may send on this visit: what others leave of the window, or its share by what waits."""
        waiting, window = self._core.waiting(), self._parameters.window_size
        others = _less(token.fcc, self._sent)
        others_wait = _less(token.backlog, self._backlog)
        share = max(window - others, window * waiting // (others_wait + waiting + 1), 1)
        if token.seq - token.aru > 2 * window:
            # Somebody is far behind: first the repairs.
            share = 0
        self.token = replace(token, fcc=others, backlog=others_wait, recovering=_less(token.recovering, self._recovering))
        self._sent = self._backlog = self._recovering = 0
        return min(share, self._parameters.max_messages, self._allowance)

    def _send(self, most: int) -> None:
        """Number and send what waits, and enter it into the token."""
        token = self.token
        assert token is not None, "only the holder sends"
        count = min(most, self._core.waiting())
        for number in range(token.seq + 1, token.seq + count + 1):
            data = self._core.take(self.ring.code, number)
            self.ring.add(number, data)
            self._send_to_ring(data, Purpose.DATA)
        waiting, recovering = self._core.waiting(), self._core.recovering()
        seq, host = token.seq + count, self.env.host
        self.token = replace(
            token,
            seq=seq,
            aru=token.aru if token.aru_by else seq,
            fcc=token.fcc + count,
            backlog=token.backlog - self._backlog + waiting,
            recovering=token.recovering - self._recovering + recovering,
            turns=token.turns if token.last == host or not count else 0,
            last=host if count else token.last,
        )
        self._sent, self._backlog, self._recovering = self._sent + count, waiting, recovering
        if len(self.ring.members) == 1:
            self.ring.safe = seq
        if count:
            self._sent_s = self.env.now()
            self._first_s = self._first_s if self._sent > count else self._sent_s
            self._core.arrived()

    def _send_to_ring(self, data: Data, purpose: Purpose) -> None:
        if self.env.groups[EVERYBODY] == self.ring.members:
            self.env.multicast(EVERYBODY, data, purpose)
            return
        for member in self.ring.members:
            if member != self.env.host:
                self.env.send(member, data, purpose)

    # --- keeping the token, and passing it on

    def _keep_or_pass(self) -> None:
        if len(self.ring.members) == 1:
            return
        if not self._may_keep():
            self._pass()
        elif self._sent:
            self._keep_a_while()
        else:
            self.env.set_timer("hold", self._idle_s)

    def _may_keep(self) -> bool:
        """Whether nobody else needs the token: all have all, nobody waits, and for safe delivery all know that all have all."""
        token = self.token
        assert token is not None, "only the holder keeps"
        all_have_all = token.aru == token.seq and not token.missing
        nobody_waits = not (token.backlog or token.recovering)
        settled = self._parameters.delivery == "agreed" or self._safe_before == token.seq
        return token.last == self.env.host and token.turns == 2 and all_have_all and nobody_waits and settled

    def _send_kept(self) -> None:
        """Send what waits while this host keeps the token: at once after a pause or for a full datagram, else once in a rotation.

        With half a datagram the wait is shorter: more messages in it would save little.
        """
        if len(self.ring.members) == 1:
            self._send(self._core.waiting())
            return
        filled, waited_s = self._core.filled(), self.env.now() - self._sent_s
        pace_s = self.round_s if filled < 1 / 2 else 3 / 4 * self.round_s
        if 0 <= waited_s < pace_s and filled < 1:
            self.env.set_timer("pace", pace_s - waited_s)
            return
        self._send(self._room)
        self._keep_a_while()

    @property
    def _room(self) -> int:
        """How many messages this host may still send before it passes the token on."""
        return max(self._allowance - self._sent, 0)

    def _keep_a_while(self) -> None:
        """This host has sent and keeps the token until it pauses, but not for too long, so that the others can say what they lack."""
        left_s = self._parameters.keep_ms / 1000 - (self.env.now() - self._first_s)
        if self._parameters.delivery == "safe" or self._core.waiting() or left_s <= 0:
            self._pass()
        else:
            self.env.set_timer("hold", min(2 * self.round_s + SHORTEST_WAIT_S, left_s))

    def _release(self) -> None:
        """Somebody else wants the token, or it was kept for long enough."""
        if len(self.ring.members) > 1:
            self._send(self._room)
            self._pass()

    def _pass(self) -> None:
        assert self.token is not None, "only the holder passes the token on"
        token = self._passed = replace(self.token, origin=self.env.host, hop=self.token.hop + 1)
        self.token = None
        for name in ("hold", "pace"):
            self.env.cancel_timer(name)
        self.env.trace("token", generation=token.ring, held=False)
        self.env.send(self.ring.successor(self.env.host), token, Purpose.CONTROL)
        rests = token.turns and not (token.backlog or token.recovering or token.missing)
        self._kept_by = token.last if rests and token.last != self.env.host else ""
        self._is_timed = not self._kept_by
        self._passed_s = self.env.now()
        self._trips.asked(ROUND, self._passed_s)
        self._expect()

    # --- a token that does not come back

    def _expect(self) -> None:
        """Wait for the token, or for another sign that it goes on. Whoever keeps it may be a little late."""
        resting_s = self._idle_s + SHORTEST_WAIT_S if self._kept_by else 0.0
        self.env.set_timer("token", resting_s + self.wait_s)

    def _ask(self) -> None:
        """Ask the member that keeps the token for it, and from now on wait for it as if it were under way."""
        self._alarmed = True
        self.env.send(self._kept_by, Wake(EVERYBODY, self.env.host, 0, self.ring.code), Purpose.CONTROL)
        self.env.set_timer("token", self.wait_s)

    def _again(self) -> None:
        """Pass the token on again; after `TRIES` times, give it up."""
        self._tries += 1
        if self._tries > TRIES:
            self._core.lost()
            return
        if self._alarmed and self._kept_by:
            self.env.send(self._kept_by, Wake(EVERYBODY, self.env.host, 0, self.ring.code), Purpose.CONTROL)
        self._pass_again()
        # A token that is revived elsewhere may be lost once more before it comes here.
        self.env.set_timer("token", max(self.wait_s, 2 * (self.round_s or self.wait_s)))

    def _pass_again(self) -> None:
        if self._passed is not None:
            self._passed_again_s = self.env.now()
            self.env.send(self.ring.successor(self.env.host), self._passed, Purpose.CONTROL)

    def _revive(self) -> None:
        """This host was passed its last token again: somebody is impatient. Let the token go on, from here or from where it was lost."""
        self._is_revived = True
        now_s = self.env.now()
        since_s = self._held_s if self.token is not None else max(self._passed_s, self._passed_again_s)
        if 0 <= now_s - since_s < 0.9 * max(self.round_s, SHORTEST_WAIT_S):
            # It is a duplicate of the network, or somebody else was as impatient. How long this host would wait does not matter: it may
            # have seen slow rotations that the others have not.
            return
        if self.token is not None:
            self._release()
        else:
            self._pass_again()


def _less(total: int, own: int) -> int:
    """What is left of a sum in the token without the share of this host."""
    return min(max(total - own, 0), MOST_NUMBERS)
