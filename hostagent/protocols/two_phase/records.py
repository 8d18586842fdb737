"""What a host keeps of a message until everybody can deliver it, with election."""

import msgspec

from hostagent.protocols.two_phase.messages import Decided, Promised, Seen, Vote


class Held(msgspec.Struct):
    """A message, this host's part in the vote on it, and the decision."""

    vote: Vote
    """The message, as it is passed on."""
    own: int
    """The counter that this host proposed."""
    promised: int = 0
    """This host takes part in no ballot below this one."""
    accepted: tuple[int, int] | None = None
    """Ballot and counter."""
    decided: int = 0
    """The final counter."""
    seen: Seen = ()
    """Once it is decided: the last message of each host that may come before it."""
    heard: int = 0
    """The highest ballot that this host knows of."""
    everywhere: bool = False
    """Whether everybody has the decision."""

    @property
    def header(self) -> tuple[int, str, int]:
        """What every datagram about the message begins with."""
        return self.vote.group, self.vote.origin, self.vote.sequence

    @property
    def promise(self) -> Promised:
        """This host's vote."""
        accepted_in, accepted = self.accepted or (0, 0)
        return Promised(*self.header, self.own, self.promised, accepted, accepted_in)

    @property
    def decision(self) -> Decided:
        """Phase 3."""
        assert self.decided, self.vote.id
        return Decided(*self.header, self.decided, self.seen)
