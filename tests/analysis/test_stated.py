"""Tables of papers beside ours, over repeats."""

from analysis.figures.stated import Entry, Table, compare_tables
from analysis.figures.statistics import Estimate


def tables(*entries):
    return [[Table("Table 1", "title", {"counter": {"Num": entry}})] for entry in entries]


def test_numbers_become_a_median_with_its_interval_beside_what_the_formula_gives():
    (found,) = compare_tables(tables(*(Entry("n + 1", float(number), 4.0) for number in range(1, 8))))
    cell = found.rows["counter"]["Num"]
    assert (cell.stated, cell.expected) == ("n + 1", 4.0)
    assert isinstance(cell.measured, Estimate)
    assert (cell.measured.median, cell.measured.low, cell.measured.high) == (4.0, 1.0, 7.0)


def test_words_agree_only_if_they_do_with_every_seed():
    (found,) = compare_tables(tables(Entry("strict", "holds", agrees=True), Entry("strict", "violated", agrees=False)))
    cell = found.rows["counter"]["Num"]
    assert (cell.word, cell.measured, cell.agrees) == ("holds / violated", None, False)


def test_a_table_or_cell_that_one_seed_lacks_is_left_out():
    with_more = [Table("Table 1", "title", {"counter": {"Num": Entry("1", 1.0), "D": Entry("2", 2.0)}})]
    (found,) = compare_tables([with_more, *tables(Entry("1", 1.0))])
    assert set(found.rows["counter"]) == {"Num"}
    assert compare_tables([[], with_more]) == []
