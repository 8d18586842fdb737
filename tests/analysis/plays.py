"""Short plays for protocols on a stage: for each property, what must happen for the mistakes to show."""

from random import Random

from tests.analysis.stage import Stage


def quiet_day(core) -> Stage:
    """Two hosts broadcast twice each, everything arrives."""
    stage = Stage(core)
    for _ in range(2):
        for host in ("h1", "h2"):
            stage.broadcast(host)
            stage.run(1)
    stage.run(10)
    return stage


def everything_twice(core) -> Stage:
    """Two messages, and the network duplicates them: 1 2 1 2 arrive."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.broadcast("h1")
    stage.duplicate()
    stage.run(5)
    return stage


def restart_before_the_ack(core) -> Stage:
    """The acknowledgement of h2 is lost, and h2 restarts before the copy is repeated."""
    stage = Stage(core)
    stage.broadcast("h1")
    for _ in range(2):
        stage.hand_over()
    stage.lose("h1")
    stage.crash("h2")
    stage.run(0.1)
    stage.restart("h2")
    stage.run(10)
    return stage


def loss(core) -> Stage:
    """The first copy to h3 is lost."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.lose("h3")
    stage.run(20)
    return stage


def receiver_crashes(core) -> Stage:
    """h3 crashes a moment after it was sent the message, and comes back with its storage."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(0.2)
    stage.crash("h3")
    stage.run(2)
    stage.restart("h3")
    stage.run(20)
    return stage


def source_crashes(core) -> Stage:
    """h1 crashes before anything of its message has left, and comes back with its storage."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.lose()
    stage.crash("h1")
    stage.run(1)
    stage.restart("h1")
    stage.run(20)
    return stage


def long_partition(core) -> Stage:
    """h3 is cut off for half a minute while h1 broadcasts."""
    stage = Stage(core)
    stage.isolate("h3")
    stage.broadcast("h1")
    stage.run(30)
    stage.rejoin("h3")
    stage.run(20)
    return stage


def source_dies_half_way(core) -> Stage:
    """h1 broadcasts twice; of the second message only the copy to h2 leaves before it dies for good."""
    stage = Stage(core, 4)
    stage.broadcast("h1")
    stage.run(1)
    stage.broadcast("h1")
    stage.in_flight = [packet for packet in stage.in_flight if packet.to == "h2"]
    stage.hand_over()
    stage.crash("h1")
    stage.run(20)
    return stage


def deliver_and_die(core) -> Stage:
    """All is well with a first message. The second reaches h2 at most before h1 dies, and what h2 sends is lost with h2."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(1)
    stage.broadcast("h1")
    stage.lose("h3")
    stage.hand_over()
    stage.lose()
    stage.crash("h1")
    stage.crash("h2")
    stage.run(20)
    return stage


def away_and_back(core) -> Stage:
    """h3 is down for ten seconds, and then there again."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(1)
    stage.crash("h3")
    stage.run(10)
    stage.restart("h3")
    stage.run(10)
    return stage


def last_first(core) -> Stage:
    """h1 broadcasts three messages, and the last one arrives first."""
    stage = Stage(core, choose=lambda count: count - 1)
    for _ in range(3):
        stage.broadcast("h1")
    stage.run(5)
    return stage


def crossing(core) -> Stage:
    """h2 and h3 broadcast three times at once, and packets overtake each other."""
    stage = Stage(core, choose=Random(1).randrange)
    for _ in range(3):
        stage.broadcast("h2")
        stage.broadcast("h3")
    stage.run(5)
    return stage


def two_groups(core) -> Stage:
    """The same, but the messages go to two groups in turn."""
    stage = Stage(core, 4, choose=Random(1).randrange, groups=2)
    for _ in range(3):
        stage.broadcast("h3")
        stage.broadcast("h4")
    stage.run(5)
    return stage


def reply_overtakes(core) -> Stage:
    """h2 answers a message of h1, and h3 gets the answer first."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.hold("h1", "h3")
    stage.run(0.1)
    stage.broadcast("h2")
    stage.run(0.1)
    stage.release()
    stage.run(5)
    return stage


def many_messages(core) -> Stage:
    """Ten messages, and time to come to rest."""
    stage = Stage(core)
    for _ in range(10):
        stage.broadcast("h1")
        stage.run(0.1)
    stage.run(10)
    return stage


def joins(core) -> Stage:
    """h4 joins the group of h1, h2 and h3 while messages are under way and overtake each other."""
    stage = Stage(core, 4, choose=Random(11).randrange, members={1: ("h1", "h2", "h3")})
    stage.broadcast("h2", to=1)
    stage.run(1)
    stage.broadcast("h3", to=1)
    stage.join("h4", 1)
    stage.broadcast("h2", to=1)
    stage.run(1)
    for host in ("h1", "h4"):
        stage.broadcast(host, to=1)
        stage.run(1)
    stage.run(10)
    return stage


def leaves(core) -> Stage:
    """h2 leaves the group of h1, h2 and h3 while messages are under way."""
    stage = Stage(core, 4, members={1: ("h1", "h2", "h3")})
    for host in ("h2", "h3"):
        stage.broadcast(host, to=1)
    stage.leave("h2", 1)
    stage.run(1)
    stage.broadcast("h3", to=1)
    stage.run(10)
    return stage


def to_a_group(core) -> Stage:
    """h2 and h3 send to a group that h1 is not in."""
    stage = Stage(core, 4, members={1: ("h2", "h3", "h4")})
    for host in ("h2", "h3"):
        stage.broadcast(host, to=1)
        stage.run(1)
    return stage


def round_and_round(core) -> Stage:
    """Two hosts broadcast, and the first token to h2 arrives twice, the second time after h2 has handed it on."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage._run_until(0.1005)
    stage.expire()
    stage.duplicate()
    stage.held, stage.in_flight = stage.in_flight[1:], stage.in_flight[:1]
    stage.run(0.15)
    stage.release()
    stage.broadcast("h3")
    stage.run(2)
    return stage


def one_is_down(core) -> Stage:
    """h3 crashes, and h1 broadcasts to the two that are left."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(1)
    stage.crash("h3")
    stage.run(1)
    stage.broadcast("h1")
    stage.run(2)
    return stage


def from_the_first(core) -> Stage:
    """h1 broadcasts twice."""
    stage = Stage(core, 4)
    for _ in range(2):
        stage.broadcast("h1")
        stage.run(1)
    return stage


def ring_of_groups(core) -> Stage:
    """Three groups of two hosts each, so that no two hosts share two messages. h1 sends to two, h2 to one, and h2 is slow to reach h3."""
    stage = Stage(core, members={1: ("h1", "h2"), 2: ("h2", "h3"), 3: ("h1", "h3")})
    for host, group in (("h1", 3), ("h1", 1), ("h2", 2)):
        stage.broadcast(host, to=group)
    _hold_all(stage, "h2", "h3")
    stage.run(5)
    return stage


def _hold_all(stage: Stage, sender: str, to: str) -> None:
    """Hand over everything, and last what one host sends another."""
    while stage.in_flight:
        stage.hold(sender, to)
        if stage.in_flight:
            stage.hand_over()
    stage.release()


def one_copy_is_slow(core) -> Stage:
    """h1 broadcasts, then h3 and h2, and what h1 sends to h3 about the second message arrives last."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(0.1)
    stage.broadcast("h3")
    stage.hand_over()
    stage.hold("h1", "h3")
    stage.broadcast("h2")
    stage.run(0.1)
    stage.release()
    stage.run(5)
    return stage


def one_copy_is_lost(core) -> Stage:
    """The same, but it never arrives, and h3 crashes in the end."""
    stage = Stage(core)
    stage.broadcast("h1")
    stage.run(0.1)
    stage.broadcast("h2")
    stage.hand_over()
    stage.lose("h3")
    stage.run(0.1)
    stage.broadcast("h2")
    stage.run(5)
    stage.crash("h3")
    stage.run(5)
    return stage


def numberer_restarts(core) -> Stage:
    """h2 broadcasts once before and once after h1 has restarted."""
    stage = Stage(core)
    stage.broadcast("h2")
    stage.run(1)
    stage.crash("h1")
    stage.run(1)
    stage.restart("h1")
    stage.broadcast("h2")
    stage.run(5)
    return stage


def root_dies(core) -> Stage:
    """h3 and then h2 broadcast. h1 gets the message of h2 first, delivers both, and dies before anybody has them from it."""
    stage = Stage(core)
    stage.broadcast("h3")
    stage.hold("h3", "h1")
    stage.run(0.1)
    stage.broadcast("h2")
    stage.hand_over()
    stage.lose()
    stage.release()
    stage.hand_over()
    stage.lose()
    stage.crash("h1")
    stage.run(5)
    return stage


def root_returns(core) -> Stage:
    """The same, and h1 comes back."""
    stage = root_dies(core)
    stage.restart("h1")
    stage.run(10)
    return stage
