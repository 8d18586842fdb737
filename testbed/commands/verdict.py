"""The commands check and tree: the verdict on a run, and its trees. Both need neither root nor Spark, and return the exit status."""

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from analysis.figures.hints import hints
from analysis.figures.trees.tree_report import TreeReport
from analysis.figures.trees.tree_report import report as tree_report
from analysis.judging.check_run import books_of, check_run, history_of
from analysis.judging.history import History
from analysis.pages.terminal_tables import (
    forest_table,
    healing_table,
    judgement_table,
    reformation_table,
    tree_table,
)
from runfiles.reading import load, runs_in
from testbed.commands.sharing import opened
from testbed.ownership import hand_over
from testbed.status import HOLDS, status_of
from testbed.terminal import output, print_sentence, print_table


def check(arguments: Namespace) -> int:
    """Check runs against the promises of their protocols, from the event logs; promises about datagrams from the table of packets too."""
    # Imported only now, because pyarrow takes long to import.
    from analysis.tables.transits import recorded  # noqa: PLC0415 - imports pyarrow

    judgements = {str(directory): check_run(directory, recorded) for directory in runs_in(map(opened, arguments.runs))}
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(judgements) + b"\n")
    else:
        for directory, judgement in judgements.items():
            output.print(directory, soft_wrap=True)
            print_table(judgement_table(judgement, books_of(Path(directory))))
        judged = ((load(Path(directory)), judgement.findings) for directory, judgement in judgements.items())
        for hint in hints(judged):
            print_sentence(hint)
    return status_of(judgement.verdict for judgement in judgements.values())


def tree(arguments: Namespace) -> int:
    """Show and draw the tree that a run's hosts formed, with the times in which it was formed again, and how long each fault was felt."""
    # Imported only now, because matplotlib takes long to import.
    from analysis.pictures import trees  # noqa: PLC0415 - imports matplotlib

    found = {}
    directories = runs_in([opened(arguments.run)])
    hand_over(*directories)
    runs = [(directory, run, history_of(run)) for directory in directories for run in [load(directory)]]
    asks_for_trees = bool(arguments.source or arguments.at)
    # Among several runs, those with neither a tree nor faults are skipped.
    shown = [row for row in runs if row[2].parents or (row[1].faults and not asks_for_trees)]
    for directory, run, history in shown or runs:
        found[str(directory)] = report = tree_report(run, history, arguments.source, arguments.at)
        pictures = trees.save_trees(run, history, report)
        if not arguments.json:
            output.print(directory, soft_wrap=True)
            _tell_tree(report, history)
            for picture in pictures:
                output.print(f"  {picture}", soft_wrap=True)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return HOLDS


def _tell_tree(report: TreeReport, history: History) -> None:
    for then in report.trees:
        if then.forest:
            print_table(forest_table(report.source, then))
        else:
            print_table(tree_table(report.source, then, of_clusters=report.of_clusters))
    if report.of_clusters:
        print_table(reformation_table(report, history))
    if report.healings:
        print_table(healing_table(report.healings, history))
    for line in (*history.damage, *(f"there is a tree of {other} too: --source {other}" for other in report.others)):
        print_sentence(line)
