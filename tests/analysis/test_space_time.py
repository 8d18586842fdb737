"""The token in space-time diagrams: who had it, its generation, and up to which message hosts have committed."""

from types import SimpleNamespace

import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from analysis.judging.history import Delivery, History, TokenChange
from analysis.pictures.space_time import draw_commits, draw_tokens

MS = 1_000_000
START_MS = 500
HEIGHT = {"h1": 0.0, "h2": 1.0, "h3": 2.5}


@pytest.fixture
def axes():
    return Figure().subplots()


def run(tokens=(), commits=()):
    changes = tuple(TokenChange((START_MS + at_ms) * MS, host, generation, held) for at_ms, host, generation, held in tokens)
    marks = tuple(Delivery((START_MS + at_ms) * MS, host, origin, sequence) for at_ms, host, origin, sequence in commits)
    return SimpleNamespace(history=History(tuple(HEIGHT), (), (), 10**10, tokens=changes, commits=marks))


def texts(axes):
    return [(text.get_text(), text.xy[0]) for text in axes.texts]


def test_each_turn_is_a_bar_and_each_generation_is_told_once(axes):
    turns = (-9, "h3", 1, True), (-7, "h3", 1, False), (-4, "h1", 1, True), (5, "h1", 1, False), (6, "h2", 1, True)
    later = (8, "h2", 1, False), (10, "h3", 4, True), (40, "h3", 4, False)
    draw_tokens(axes, run((*turns, *later)), START_MS * MS, 30.0, HEIGHT)
    bars = [tuple(map(tuple, bar.get_segments()[0])) for bar in axes.collections if isinstance(bar, LineCollection)]
    assert bars == [((-4, 0), (5, 0)), ((6, 1), (8, 1)), ((10, 2.5), (40, 2.5))]
    assert texts(axes) == [("generation 1", 0), ("4", 10)]


def test_a_token_that_is_kept_to_the_end_is_drawn_too(axes):
    draw_tokens(axes, run([(3, "h2", 1, True)]), START_MS * MS, 30.0, HEIGHT)
    assert [tuple(map(tuple, bar.get_segments()[0])) for bar in axes.collections] == [((3, 1), (30, 1))]


def test_commits_are_marked_at_each_host_with_the_last_message(axes):
    first = (-1, "h1", "h2", 8), (10, "h1", "h2", 9), (10, "h1", "h2", 10), (11, "h3", "h2", 10)
    draw_commits(
        axes, run(commits=(*first, (20, "h1", "h3", 7), (21, "h2", "h1", 2), (40, "h1", "h3", 8))), START_MS * MS, 30.0, HEIGHT
    )
    assert [tuple(mark) for mark in axes.collections[0].get_offsets()] == [(10, 0), (10, 0), (11, 2.5), (20, 0), (21, 1)]
    # h1:2 would touch h3:7.
    assert texts(axes) == [("h2:10", 10), ("h3:7", 20)]
