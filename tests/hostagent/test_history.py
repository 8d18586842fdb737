"""The history: it keeps what a member may lack, forgets what all have, says how much that is, and survives a restart."""

# ruff: noqa: ARG003 - a core has the signatures of the contract
from types import SimpleNamespace

import pytest

from hostagent.contract.core import Core
from hostagent.contract.promises import Promise
from hostagent.parts.history import History
from tests.hostagent.world import World


class Keeper(Core):
    """A host with a history, and nothing else."""

    name, number, summary, assumes, messages = "keeper", 91, "", "", ()

    def __init__(self, env, parameters):
        super().__init__(env, parameters)
        self.history = self.add("history", lambda own: History(own, env.peers))

    @classmethod
    def promise(cls, parameters, hosts):
        return Promise(guarantees=(), patience_ms=0.0, retained=0)


@pytest.fixture
def keeper():
    """The first of three hosts; its members are h2 and h3."""
    world = World(Keeper, 3)

    def restart():
        world.restart("h1")
        return world["h1"].core.history

    return SimpleNamespace(history=world["h1"].core.history, restart=restart, stored=lambda: world["h1"].kept("core.history"))


def test_entries_are_numbered_in_the_order_in_which_they_were_added(keeper):
    assert [keeper.history.append(value) for value in ("a", "b")] == [1, 2]
    assert (keeper.history[1], keeper.history[2]) == ("a", "b")
    assert (keeper.history.first, keeper.history.last, len(keeper.history)) == (1, 2, 2)


def test_what_all_members_have_is_forgotten_also_by_the_storage(keeper):
    for value in "abc":
        keeper.history.append(value)
    keeper.history.acknowledge("h2", 3)
    assert len(keeper.history) == 3
    keeper.history.acknowledge("h3", 2)
    assert (1 in keeper.history, 2 in keeper.history, 3 in keeper.history) == (False, False, True)
    assert sorted(keeper.stored()) == ["3", "forgotten"]
    assert keeper.history.first == 3


def test_how_many_entries_are_forgotten_is_told_so_that_as_many_that_wait_can_be_added(keeper):
    for value in "abcd":
        keeper.history.append(value)
    assert keeper.history.acknowledge("h2", 4) == 0
    assert keeper.history.acknowledge("h3", 1) == 1
    assert keeper.history.acknowledge("h3", 1) == 0
    assert keeper.history.acknowledge("h3", 4) == 3


def test_an_entry_for_some_members_does_not_wait_for_the_others(keeper):
    keeper.history.append("a", ["h2"])
    assert (keeper.history.latest("h2"), keeper.history.latest("h3")) == (1, 0)
    assert list(keeper.history.lagging()) == ["h2"]
    keeper.history.acknowledge("h2", 1)
    assert len(keeper.history) == 0
    keeper.history.append("b", ["h3"])
    keeper.history.acknowledge("h2", 1)
    assert list(keeper.history.lagging()) == ["h3"]
    keeper.history.acknowledge("h3", 2)
    assert len(keeper.history) == 0


def test_an_entry_for_nobody_is_not_kept(keeper):
    assert keeper.history.append("a", []) == 1
    assert len(keeper.history) == 0
    assert keeper.history.append("b") == 2


def test_a_restart_keeps_entries_and_numbers_and_asks_anew_who_has_what(keeper):
    for value, receivers in (("a", ["h2"]), ("b", None), ("c", ["h3"])):
        keeper.history.append(value, receivers)
    keeper.history.acknowledge("h2", 3)
    keeper.history.acknowledge("h3", 1)
    again = keeper.restart()
    assert (again.first, again.last, again[2], again[3]) == (2, 3, "b", "c")
    assert (again.latest("h2"), again.latest("h3")) == (2, 3)
    assert list(again.lagging()) == ["h2", "h3"]
    again.acknowledge("h2", 2)
    again.acknowledge("h3", 3)
    assert (len(again), again.append("d")) == (0, 4)


def test_a_restart_with_nothing_left_goes_on_with_the_next_number_and_knows_the_last_entry_for_each(keeper):
    keeper.history.append("a", ["h2"])
    keeper.history.append("b", ["h3"])
    keeper.history.acknowledge("h2", 1)
    keeper.history.acknowledge("h3", 2)
    again = keeper.restart()
    assert (again.latest("h2"), again.latest("h3"), again.append("c")) == (1, 2, 3)


def test_a_member_never_has_more_than_was_given_out_and_does_not_unlearn(keeper):
    keeper.history.append("a")
    keeper.history.acknowledge("h2", 99)
    assert keeper.history.has("h2") == 1
    keeper.history.acknowledge("h2", 0)
    assert keeper.history.has("h2") == 1


def test_what_is_cut_off_at_the_end_was_never_there(keeper):
    for value, receivers in (("a", None), ("b", ["h2"]), ("c", None)):
        keeper.history.append(value, receivers)
    keeper.history.acknowledge("h2", 3)
    keeper.history.cut_after(1)
    assert (keeper.history.last, keeper.history.latest("h2"), keeper.history.has("h2")) == (1, 1, 1)
    assert keeper.history.append("d") == 2
    assert keeper.restart()[2] == "d"


def test_adding_and_acknowledging_store_what_changed_and_nothing_else(keeper):
    history, stores = keeper.history, []
    history.env.store = lambda key, _: stores.append(key)
    for value in "abcd":
        history.append(value)
    assert stores == ["1", "2", "3", "4"]
    history.acknowledge("h2", 4)
    assert len(stores) == 4
    history.acknowledge("h3", 2)
    assert stores[4:] == ["1", "2", "forgotten"]
