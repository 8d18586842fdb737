"""The page of checkers says what the casts of mutants say."""

from tests.analysis.checkers import PAGE, rows


def test_every_checker_has_its_row():
    written = [tuple(line.strip("| ").split(" | ")[:3]) for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert written[1:] == rows(), "the page is old: python -m tests.analysis.checkers writes it anew"
