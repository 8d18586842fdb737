"""What the sequencer claims to survive, and what it does not."""

from simulator.swarm import draw_case

ELECT = {"failover": "elect"}


def test_with_failover_hosts_that_die_for_good_are_survived_and_without_it_they_are_beyond():
    kinds = [draw_case("sequencer", seed, ELECT) for seed in range(60)]
    assert any("crash-for-good" in drawn and not case.beyond for case, drawn in kinds)
    assert not any(
        "crash-for-good" in drawn and not case.beyond for case, drawn in (draw_case("sequencer", seed) for seed in range(60))
    )
