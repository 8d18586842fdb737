"""The procedures of the cluster tree one by one, as in section 4 and the appendix of the first paper: cores over a scripted link.

The mode is literal, and the clusters are given as a list, unless a test says otherwise. The source is h1, alone in its cluster.
"""

import pytest

from hostagent.contract.messages import Purpose
from hostagent.parts.delivery import Copy
from hostagent.protocols.cluster_tree import ClusterTree
from hostagent.protocols.cluster_tree.messages import Adopt, Declare, Detach, Hearsay, Hello, Info, Pointer, Report
from tests.hostagent.world import World

SOURCE = "h1"


def clusters(listed: str, mode: str = "literal") -> World:
    """Hosts in these clusters."""
    hosts = listed.replace("|", ",").split(",")
    return World(ClusterTree, len(hosts), mode=mode, clusters_from="static", clusters=listed)


@pytest.fixture
def world() -> World:
    """h2, h3 and h4 are a cluster; h1 and h5 are each alone."""
    return clusters("h1|h2,h3,h4|h5")


def tree(world: World, host: str):
    return world[host].core.tree(SOURCE)


def hear(world: World, host: str, sender: str, message) -> None:
    world[host].core.on_message(sender, message, expensive=False)


def told_info(world: World, host: str, sender: str, prefix: int, *beyond: tuple[int, int]) -> None:
    """`sender` has all messages up to `prefix` and those in `beyond`, and `host` hears of it."""
    hear(world, host, sender, Info(0, SOURCE, 0, prefix, beyond, 0.0))


def told_parent(world: World, host: str, sender: str, parent: str) -> None:
    hear(world, host, sender, Pointer(0, SOURCE, 0, parent))


def attach(world: World, host: str) -> str:
    """Run the attachment procedure; the parent that comes of it."""
    world[host].core.on_timer(f"NP1/{SOURCE}")
    return tree(world, host).parent


def adopted_by(world: World, host: str, parent: str, prefix: int = 0) -> None:
    """`host` has a parent that has answered."""
    told_info(world, host, parent, prefix or tree(world, host).info.highest + 1)
    assert attach(world, host) == parent
    hear(world, host, parent, Adopt(0, SOURCE, 0))
    world.lose()


def sent(world: World, sender: str, kind: type) -> list[tuple[str, int]]:
    """What is in flight from a host, of a kind: to whom, and the number."""
    return [(p.to, p.message.sequence) for p in world.in_flight if p.sender == sender and isinstance(p.message, kind)]


def receive(world: World, host: str, sender: str, *numbers: int) -> None:
    for number in numbers:
        hear(world, host, sender, Copy(0, SOURCE, number, b"text"))


# Section 4.2: the attachment procedure.


def test_case_1_option_1_a_leader_of_the_cluster_that_is_ahead(world):
    told_info(world, "h2", "h3", 3)
    told_info(world, "h2", "h4", 5)
    told_info(world, "h2", "h5", 9)
    assert attach(world, "h2") == "h4"
    assert sent(world, "h2", Declare) == [("h4", 0)]


def test_case_1_option_1_passes_over_hosts_that_do_not_lead(world):
    told_info(world, "h2", "h3", 3)
    told_info(world, "h2", "h4", 5)
    told_parent(world, "h2", "h4", "h3")
    assert attach(world, "h2") == "h3"


def test_case_1_option_2_a_leader_that_is_level_and_comes_later_in_the_order(world):
    for host, other in (("h2", "h3"), ("h3", "h2")):
        told_info(world, host, other, 0)
    assert attach(world, "h2") == "h3"
    assert attach(world, "h3") == ""


def test_option_2_the_source_comes_last_in_the_order():
    world = clusters("h1,h2,h3")
    told_info(world, "h3", "h2", 0)
    told_info(world, "h3", "h1", 0)
    assert attach(world, "h3") == "h1"


def test_case_1_option_3_a_host_of_another_cluster_that_is_ahead(world):
    told_info(world, "h2", "h1", 0)
    assert attach(world, "h2") == ""
    told_info(world, "h2", "h1", 2)
    assert attach(world, "h2") == "h1"


def test_case_2_options_1_and_2_come_before_a_better_parent_outside(world):
    adopted_by(world, "h2", "h1", prefix=1)
    told_info(world, "h2", "h5", 9)
    told_info(world, "h2", "h4", 0)
    assert attach(world, "h2") == "h4"
    assert sent(world, "h2", Detach) == [("h1", 0)]


def test_case_2_option_3_a_host_outside_that_is_ahead_of_the_parent(world):
    adopted_by(world, "h2", "h1", prefix=3)
    told_info(world, "h2", "h5", 3)
    assert attach(world, "h2") == "h1"
    told_info(world, "h2", "h5", 4)
    assert attach(world, "h2") == "h5"
    assert sent(world, "h2", Detach) == [("h1", 0)]


def test_case_3_the_ancestor_that_leads_the_cluster(world):
    adopted_by(world, "h4", "h3")
    told_parent(world, "h4", "h3", "h2")
    told_parent(world, "h4", "h2", "h1")
    assert attach(world, "h4") == "h2"
    assert sent(world, "h4", Detach) == [("h3", 0)]
    assert attach(world, "h4") == "h2"


@pytest.mark.parametrize(("host", "parent"), [("h2", "h3"), ("h3", "h4"), ("h4", "h2")])
def test_case_3_a_cycle_is_broken_by_its_last_host_in_the_order(world, host, parent):
    """h2 is a child of h3, h3 of h4, and h4 of h2."""
    adopted_by(world, host, parent)
    for one, above in (("h2", "h3"), ("h3", "h4"), ("h4", "h2")):
        if one != host:
            told_parent(world, host, one, above)
    assert attach(world, host) == ("" if host == "h4" else parent)


@pytest.fixture
def outgrown(world) -> World:
    """h4 leads its cluster and has nothing. h2 attached to it when they were level, and has three messages by now."""
    adopted_by(world, "h2", "h1", prefix=3)
    told_info(world, "h2", "h4", 0)
    receive(world, "h2", "h1", 1, 2, 3)
    assert attach(world, "h2") == "h4"
    hear(world, "h2", "h4", Adopt(0, SOURCE, 0))
    told_info(world, "h2", "h4", 0)
    world.lose()
    return world


def test_case_3_a_host_that_has_more_than_a_leader_without_a_parent_leads_in_its_place(outgrown):
    told_parent(outgrown, "h2", "h4", "")
    assert attach(outgrown, "h2") == ""
    assert sent(outgrown, "h2", Detach) == [("h4", 0)]
    told_info(outgrown, "h4", "h2", 3)
    told_parent(outgrown, "h4", "h2", "")
    assert attach(outgrown, "h4") == "h2"


def test_case_3_a_leader_that_has_a_parent_or_is_level_is_kept(outgrown):
    told_parent(outgrown, "h2", "h4", "h5")
    assert attach(outgrown, "h2") == "h4"
    told_parent(outgrown, "h2", "h4", "")
    told_info(outgrown, "h2", "h4", 3)
    assert attach(outgrown, "h2") == "h4"


def test_case_3_the_source_is_kept_where_a_message_has_overtaken_its_info():
    world = clusters("h1,h2|h3")
    adopted_by(world, "h2", "h1", prefix=1)
    told_parent(world, "h2", "h1", "")
    receive(world, "h2", "h1", 1, 2)
    told_info(world, "h2", "h1", 1)
    assert attach(world, "h2") == "h1"


def test_the_source_never_attaches(world):
    world.broadcast("h1")
    told_info(world, "h1", "h5", 9)
    assert f"core/NP1/{SOURCE}" not in world["h1"].timers
    assert tree(world, "h1").parent == ""


def test_a_parent_that_does_not_answer_is_given_up_and_others_are_tried_first(world):
    told_info(world, "h2", "h3", 5)
    told_info(world, "h2", "h4", 3)
    assert attach(world, "h2") == "h3"
    world["h2"].core.on_timer(f"NP2/{SOURCE}")
    assert tree(world, "h2").parent == "h4"
    world["h2"].core.on_timer(f"NP2/{SOURCE}")
    assert tree(world, "h2").parent == ""
    assert attach(world, "h2") == "h3"


# The appendix: NEW-CHILD, NEW-PARENT-ACKNOWLEDGED, DETACH, PARENT-ALIVE.


def test_a_child_is_answered_first_and_then_gets_what_it_lacks(world):
    for _ in range(2):
        world.broadcast("h1")
    hear(world, "h1", "h5", Declare(0, SOURCE, 0, 0, (), 0.0))
    answers = [(type(packet.message), packet.message.sequence) for packet in world.in_flight]
    assert answers == [(Adopt, 0), (Copy, 1), (Copy, 2)]
    assert list(tree(world, "h1").children) == ["h5"]


def test_a_child_that_detaches_is_sent_nothing_more(world):
    hear(world, "h1", "h5", Declare(0, SOURCE, 0, 0, (), 0.0))
    hear(world, "h1", "h5", Detach(0, SOURCE, 0))
    world.lose()
    world.broadcast("h1")
    assert world.in_flight == []


def test_an_answer_of_a_host_that_is_not_the_parent_any_more_is_declined(world):
    adopted_by(world, "h2", "h1")
    hear(world, "h2", "h5", Adopt(0, SOURCE, 0))
    assert sent(world, "h2", Detach) == [("h5", 0)]
    assert tree(world, "h2").parent == "h1"


def test_a_parent_in_the_cluster_that_goes_silent_is_left_and_somebody_else_leads(world):
    adopted_by(world, "h2", "h4", prefix=1)
    told_info(world, "h2", "h4", 1)
    assert f"core/PA/{SOURCE}" in world["h2"].timers
    told_info(world, "h2", "h1", 2)
    tree(world, "h2").map.pop("h4")
    tree(world, "h2").lead.pop("h4")
    world["h2"].core.on_timer(f"PA/{SOURCE}")
    assert tree(world, "h2").parent == "h1"
    assert [details["leader"] for event, details in world["h2"].traced if event == "parent"] == [False, True, True]


# PROPAGATION.


def test_what_is_higher_than_all_seen_is_taken_from_the_parent_only(world):
    adopted_by(world, "h2", "h1")
    receive(world, "h2", "h5", 1)
    assert world.delivered("h2") == []
    assert sent(world, "h2", Detach) == [("h5", 0)]
    receive(world, "h2", "h1", 1)
    assert world.delivered("h2") == [(SOURCE, 1)]


def test_a_gap_is_filled_by_whoever_sends_the_message(world):
    adopted_by(world, "h2", "h1")
    receive(world, "h2", "h1", 3)
    receive(world, "h2", "h5", 2)
    receive(world, "h2", "h5", 2)
    assert world.delivered("h2") == [(SOURCE, 3), (SOURCE, 2)]


def test_what_is_new_goes_on_to_the_neighbours_that_do_not_have_it(world):
    adopted_by(world, "h2", "h1")
    for child in ("h3", "h4"):
        hear(world, "h2", child, Declare(0, SOURCE, 0, 0, (), 0.0))
    told_info(world, "h2", "h4", 1)
    world.lose()
    receive(world, "h2", "h1", 1)
    assert sent(world, "h2", Copy) == [("h3", 1)]
    assert [packet.purpose for packet in world.in_flight if isinstance(packet.message, Copy)] == [Purpose.DATA]


# Section 4.4: gap filling.


@pytest.fixture
def holder(world) -> World:
    """h2 has messages 1 to 4 from its parent h1."""
    adopted_by(world, "h2", "h1")
    receive(world, "h2", "h1", 1, 2, 3, 4)
    world.lose()
    return world


def test_gaps_of_neighbours_and_of_strangers_are_filled_and_strangers_get_nothing_beyond_what_they_have(holder):
    told_info(holder, "h2", "h1", 1, (3, 4))
    told_info(holder, "h2", "h5", 1, (3, 3))
    holder["h2"].core.on_timer(f"GFN/{SOURCE}")
    assert sent(holder, "h2", Copy) == [("h1", 2)]
    holder["h2"].core.on_timer(f"GFX/{SOURCE}")
    assert sent(holder, "h2", Copy) == [("h1", 2), ("h5", 2)]
    assert {packet.purpose for packet in holder.in_flight} == {Purpose.REPAIR}


def test_a_child_gets_everything_that_it_lacks_at_its_next_info(holder):
    hear(holder, "h2", "h3", Declare(0, SOURCE, 0, 4, (), 0.0))
    holder.lose()
    told_info(holder, "h2", "h3", 2)
    assert sent(holder, "h2", Copy) == [("h3", 3), ("h3", 4)]


def test_the_same_message_is_not_sent_again_before_an_answer_could_be_there(holder):
    told_info(holder, "h2", "h1", 1, (3, 4))
    for after_s, copies in ((0.0, 1), (0.3, 1), (0.2, 2)):
        holder.now_s += after_s
        holder["h2"].core.on_timer(f"GFN/{SOURCE}")
        assert len(sent(holder, "h2", Copy)) == copies


# Section 5: forgetting.


def test_a_message_is_forgotten_once_every_host_is_known_to_have_it(holder):
    for host in ("h1", "h3", "h4"):
        told_info(holder, "h2", host, 4)
    told_info(holder, "h2", "h5", 3)
    holder["h2"].core.on_timer(f"EIN/{SOURCE}")
    assert list(tree(holder, "h2").payloads) == [4]
    assert [key for key in holder["h2"].stored if key.startswith("message/")] == [f"message/{SOURCE}/4"]


def test_a_host_that_restarts_has_what_it_kept_and_delivers_nothing_twice(holder):
    holder.restart("h2")
    assert list(tree(holder, "h2").payloads) == [1, 2, 3, 4]
    assert tree(holder, "h2").parent == ""
    receive(holder, "h2", "h1", 1, 4)
    assert holder.delivered("h2") == [(SOURCE, number) for number in (1, 2, 3, 4)]


# Both modes, whole.


@pytest.mark.parametrize("mode", ["literal", "frugal"])
def test_two_cores_find_each_other_and_repair_what_the_link_loses(mode):
    world = clusters("h1|h2", mode)
    for _ in range(3):
        world.broadcast("h1")
    lost = 0
    for _ in range(2000):
        lost += world.lose(kind=Copy) if lost < 3 else 0
        if world.in_flight:
            world.hand_over()
        elif world.lacking() == {}:
            break
        else:
            world.expire()
    assert lost >= 3
    assert world.lacking() == {}
    assert (tree(world, "h2").parent, list(tree(world, "h1").children)) == ("h1", ["h2"])


# The frugal exchange: what is different there.


def report(parent: str, prefix: int, covered: int, stable: int, everywhere: int = 0) -> Report:
    return Report(0, SOURCE, 0, prefix, (), 0.0, parent, bytes([covered]), stable, everywhere)


def test_frugal_a_report_is_a_pointer_too():
    world = clusters("h1|h2,h3", "frugal")
    hear(world, "h2", "h3", report("h1", 0, 0b100, 0))
    assert tree(world, "h2").parents["h3"] == "h1"
    hear(world, "h1", "h2", report("h1", 0, 0b110, 0))
    assert list(tree(world, "h1").children) == ["h2"]
    hear(world, "h1", "h2", report("h3", 0, 0b010, 0))
    assert list(tree(world, "h1").children) == []


def test_frugal_the_root_forgets_what_all_below_it_have_and_tells_so():
    world = clusters("h1|h2,h3", "frugal")
    for _ in range(3):
        world.broadcast("h1")
    hear(world, "h1", "h2", report("h1", 3, 0b010, 3))
    assert list(tree(world, "h1").payloads) == [1, 2, 3]
    hear(world, "h1", "h2", report("h1", 3, 0b110, 2))
    assert list(tree(world, "h1").payloads) == [3]
    world["h1"].core.on_timer(f"OWE/{SOURCE}")
    assert [p.message.everywhere for p in world.in_flight if isinstance(p.message, Report)][-1] == 2


def test_frugal_a_member_passes_what_it_hears_of_others_on_to_its_leader():
    world = clusters("h1|h2,h3|h4", "frugal")
    adopted_by(world, "h2", "h3")
    hear(world, "h2", "h4", report("", 5, 0b1000, 5))
    assert [(p.to, p.message.host) for p in world.in_flight if isinstance(p.message, Hearsay)] == [("h3", "h4")]
    world.settle()
    assert tree(world, "h3").highest("h4") == 5


def test_frugal_a_parent_outside_is_asked_before_it_is_left():
    world = clusters("h1|h2", "frugal")
    adopted_by(world, "h2", "h1")
    for question in range(1, 4):
        world["h2"].core.on_timer(f"{'NP2' if question > 1 else 'PA'}/{SOURCE}")
        assert len(sent(world, "h2", Declare)) == question
        assert tree(world, "h2").parent == "h1"
    world["h2"].core.on_timer(f"NP2/{SOURCE}")
    assert (len(sent(world, "h2", Declare)), tree(world, "h2").parent) == (3, "h1")


def leave_unanswered(world: World, host: str) -> str:
    """The parent goes silent and answers none of three questions; the parent that comes of it."""
    for timer in ("PA", "NP2", "NP2", "NP2"):
        world[host].core.on_timer(f"{timer}/{SOURCE}")
    return tree(world, host).parent


def test_frugal_a_parent_that_does_not_answer_is_left_for_a_host_that_has_only_as_much():
    world = clusters("h1|h2|h3", "frugal")
    adopted_by(world, "h2", "h1", prefix=3)
    told_info(world, "h2", "h3", 3)
    assert attach(world, "h2") == "h1"
    assert leave_unanswered(world, "h2") == "h3"


def test_frugal_a_parent_that_does_not_answer_is_let_go_where_a_child_in_the_cluster_has_more():
    world = clusters("h1|h2,h3", "frugal")
    adopted_by(world, "h2", "h1", prefix=3)
    hear(world, "h2", "h3", report("h2", 3, 0b100, 3))
    assert leave_unanswered(world, "h2") == ""


def test_frugal_a_new_parent_that_does_not_answer_is_given_up_whatever_the_one_before_was_asked():
    world = clusters("h1|h2|h3|h4", "frugal")
    adopted_by(world, "h2", "h1", prefix=1)
    world["h2"].core.on_timer(f"PA/{SOURCE}")
    told_info(world, "h2", "h3", 4)
    told_info(world, "h2", "h4", 3)
    assert attach(world, "h2") == "h3"
    world["h2"].core.on_timer(f"NP2/{SOURCE}")
    assert tree(world, "h2").parent == "h4"


def test_frugal_probes_go_to_each_host_of_a_cluster_in_turn_and_greet_those_that_were_met():
    world = clusters("h1|h2,h3,h4", "frugal")
    world.broadcast("h1")
    hear(world, "h1", "h3", Hello(0, "h3", 0, bytes([0b1110]), False, 0.0))
    world.lose()
    for _ in range(6):
        world["h1"].core.on_timer("PROBE/")
    probed = [host for host, _ in sent(world, "h1", Report)]
    assert sorted(probed[:3]) == ["h2", "h3", "h4"]
    assert probed[3:] == probed[:3]
    assert [host for host, _ in sent(world, "h1", Hello)] == ["h3", "h3"]


def test_frugal_a_child_that_says_nothing_for_long_is_no_child():
    world = clusters("h1|h2", "frugal")
    world.broadcast("h1")
    hear(world, "h1", "h2", Declare(0, SOURCE, 0, 1, (), 0.0))
    for _ in range(6):
        world["h1"].core.on_timer("EIN/")
    assert list(tree(world, "h1").children) == ["h2"]
    world["h1"].core.on_timer("EIN/")
    assert list(tree(world, "h1").children) == []
