"""check, campaign and tree: what holds, and how it came about. Every function returns the exit status."""

import math
import sys
from argparse import Namespace
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from analysis.figures.tree_report import report as tree_report
from analysis.judging.check_run import check_run, history_of
from analysis.judging.findings import Verdict
from analysis.pages.terminal_tables import judgement_table, reformation_table, tree_table
from runfiles.reading import load, runs_in
from simulator import cases
from simulator.swarm import TROUBLES, draw_case
from testbed.commands.sharing import opened
from testbed.running import campaign as campaigns
from testbed.running.background import SparkStart
from testbed.running.settings import check_parameters, split_settings
from testbed.status import HOLDS, UNKNOWN, VIOLATED, status_of
from testbed.terminal import bar, errors, output, progress

# Failures that are shrunk and printed; where there are many, they are mostly the same.
MOST_SHRUNK = 5


def campaign(arguments: Namespace) -> int:
    """Random cases in virtual time, or one of them again."""
    protocol = arguments.protocol
    _, parameters = split_settings(arguments.set)
    check_parameters([protocol], parameters)
    if arguments.replay:
        return _replay(protocol, arguments.replay, parameters.get(protocol, {}), as_json=arguments.json)
    out = arguments.out or Path("results", f"campaign-{protocol}-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock
    seeds = range(arguments.seed, arguments.seed + arguments.schedules)
    tally = _run_campaign(protocol, seeds, parameters.get(protocol, {}), arguments)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(tally) + b"\n")
    else:
        print_tally(protocol, tally)
    for line in tally.failures[:MOST_SHRUNK]:
        with progress(f"seed {line.seed}") as show:
            show("shrinking")
            path = campaigns.keep(draw_case(protocol, line.seed, parameters.get(protocol, {}))[0], out)
        errors.print(f"seed {line.seed}: {line.reason}", soft_wrap=True, markup=False)
        errors.print(f"  replay: ./castbed campaign --protocol {protocol} --replay {line.seed}", soft_wrap=True)
        errors.print(f"  shrunk: ./castbed campaign --protocol {protocol} --replay {path}", soft_wrap=True)
    return VIOLATED if tally.failures else UNKNOWN if tally.within["unknown"] or not tally.tested.total() else HOLDS


def _run_campaign(protocol: str, seeds: range, parameters: dict[str, Any], arguments: Namespace) -> campaigns.Tally:
    master = f"local[{arguments.jobs}]" if arguments.jobs else arguments.spark_master
    tally = campaigns.Tally()
    with bar(f"{protocol}", len(seeds)) as advance:
        for line in campaigns.lines(SparkStart(master).wait(), protocol, seeds, parameters):
            tally.add(line)
            advance(f"{len(tally.failures)} failures")
    return tally


def print_tally(protocol: str, tally: campaigns.Tally) -> None:
    """What became of all cases, and which promises they tested."""
    every = math.comb(len(TROUBLES), 2)
    output.print(
        f"{protocol}: {tally.cases} cases, {tally.events} events, {len(tally.pairs)} of {every} pairs of troubles covered"
    )
    output.print(f"  within its assumptions:  {_verdicts(tally.within)}")
    tested = ", ".join(f"{name} in {count}" for name, count in tally.tested.items() if count) or "nothing"
    output.print(f"  tested:                  {tested}", soft_wrap=True)
    if never := [name for name, count in tally.tested.items() if not count]:
        output.print(f"  no schedule tested:      {', '.join(never)}", soft_wrap=True)
    if tally.beyond:
        lost = ", ".join(f"{name} in {count}" for name, count in sorted(tally.lost_beyond.items())) or "nothing lost"
        output.print(f"  beyond them:             {_verdicts(tally.beyond)}; {lost}", soft_wrap=True)


def _verdicts(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in Verdict)


def _replay(protocol: str, what: str, parameters: dict[str, Any], *, as_json: bool) -> int:
    """One case again, from its seed or its file, with its verdict and its trace."""
    case = draw_case(protocol, int(what), parameters)[0] if what.isdigit() else cases.load(Path(what))
    result = cases.run(case)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.encode({"case": case, "result": result}) + b"\n")
    else:
        output.print(msgspec.json.format(msgspec.json.encode(case)).decode(), markup=False, soft_wrap=True)
        output.print(judgement_table(result.judgement))
        output.print(f"trace {result.trace}", soft_wrap=True)
    return status_of([result.judgement.verdict])


def check(arguments: Namespace) -> int:
    """Hold runs against what their protocols promise, from their event logs alone."""
    judgements = {str(directory): check_run(directory) for directory in runs_in(map(opened, arguments.runs))}
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(judgements) + b"\n")
    else:
        for directory, judgement in judgements.items():
            output.print(directory, soft_wrap=True)
            output.print(judgement_table(judgement))
    return status_of(judgement.verdict for judgement in judgements.values())


def tree(arguments: Namespace) -> int:
    """The tree that a run's hosts formed: who led whom and when, how long it took, and pictures. Needs no root and no Spark."""
    # Only now: it draws, and matplotlib takes long to import.
    from analysis.pictures import trees  # noqa: PLC0415 - imports matplotlib

    found = {}
    runs = [(directory, run, history_of(run)) for directory in runs_in([opened(arguments.run)]) for run in [load(directory)]]
    # Of several runs, those of protocols that make no trees are passed over.
    for directory, run, history in [row for row in runs if row[2].parents] or runs:
        found[str(directory)] = report = tree_report(run, history, arguments.source, arguments.at)
        pictures = trees.save_trees(run, history, report)
        if not arguments.json:
            output.print(directory, soft_wrap=True, markup=False)
            for then in report.trees:
                output.print(tree_table(report.source, then))
            output.print(reformation_table(report, history))
            for line in (*history.damage, *(f"there is a tree of {other} too: --source {other}" for other in report.others)):
                output.print(line, soft_wrap=True, markup=False)
            for picture in pictures:
                output.print(f"  {picture}", soft_wrap=True, markup=False)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return HOLDS
