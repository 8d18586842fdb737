"""The command campaign: random cases in virtual time. Returns the exit status."""

import math
import shlex
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from analysis.judging.findings import Verdict
from hostagent.contract.promises import Guarantee
from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from hostagent.runtime.failures import CoreFailed
from simulator import campaign as campaigns
from simulator import cases
from simulator.swarm import FEWEST_HOSTS, MOST_HOSTS, draw_case, troubles
from testbed.errors import CannotRun
from testbed.ownership import hand_over
from testbed.running.settings import check_parameters, split_settings
from testbed.running.workers import spread
from testbed.status import HOLDS, UNKNOWN, VIOLATED, status_of
from testbed.terminal import bar, errors, output, print_sentence, print_table, progress

# Failures that are shrunk and printed; many failures mostly have the same cause.
MOST_SHRUNK = 5
# Some events of logs in the words of the third paper.
WORDS = {"formed": "graph re-formed", "successor": "manager replaced", "take-back": "tail rolled back"}


def campaign(arguments: Namespace) -> int:
    """Run random cases in virtual time, or one case again."""
    protocol = own.find(arguments.protocol)
    if protocol in own.LOADED and own.LOADED[protocol].words is not None:
        raise CannotRun(f"protocol {protocol} is a program, which does not run in virtual time: run it with ./castbed run")
    parameters = _parameters(protocol, arguments.set)
    if arguments.replay:
        return _replay(arguments, protocol, parameters)
    out = arguments.out or Path("results", f"campaign-{protocol}-{datetime.now():%Y%m%d-%H%M%S}")  # noqa: DTZ005 - the user's own clock
    hand_over(out)
    seeds = range(arguments.seed, arguments.seed + arguments.schedules)
    again = f"./castbed campaign --protocol {shlex.quote(arguments.protocol)}"
    options = "" if arguments.medium == "unicast" else f" --medium {arguments.medium}"
    options += " --brief" if arguments.brief else ""
    options += "".join(f" --set {shlex.quote(pair)}" for pair in arguments.set)
    try:
        tally = _run_campaign(protocol, seeds, parameters, arguments)
    except CoreFailed as failed:
        if (seed := failed.failure.seed) is not None:
            errors.print(f"seed {seed}: an exception in the protocol ends the campaign", soft_wrap=True)
            errors.print(f"  replay: {again}{options} --replay {seed}", soft_wrap=True)
        raise
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode(tally) + b"\n")
    else:
        print_tally(protocol, tally, parameters)
    for line in tally.failures[:MOST_SHRUNK]:
        with progress(f"seed {line.seed}") as show:
            show("shrinking")
            case, _ = draw_case(protocol, line.seed, parameters, arguments.medium, brief=arguments.brief)
            path = campaigns.keep(case, out)
        errors.print(f"seed {line.seed}: {line.reason}", soft_wrap=True)
        errors.print(f"  replay: {again}{options} --replay {line.seed}", soft_wrap=True)
        errors.print(f"  shrunk: {again} --replay {path}", soft_wrap=True)
    return VIOLATED if tally.failures else UNKNOWN if tally.within["unknown"] or not tally.tested.total() else HOLDS


def _parameters(protocol: str, pairs: Sequence[str]) -> dict[str, Any]:
    """The parameters of the campaign's protocol; it need not be named in front of each. Refuses what not all networks of cases allow."""
    settings, named = split_settings(pairs)
    _, plain = split_settings([f"{protocol}.{key}={value}" for key, value in settings.items()])
    if others := [name for name in named if name in PROTOCOLS and name != protocol]:
        raise CannotRun(f"the campaign is about {protocol}, so a parameter of {others[0]} has no effect: leave it out of --set")
    check_parameters([protocol, *named], named | {protocol: named.get(protocol, {}) | plain.get(protocol, {})})
    parameters = named.get(protocol, {}) | plain.get(protocol, {})
    core = PROTOCOLS[protocol]
    for size in (FEWEST_HOSTS, MOST_HOSTS) if parameters else ():
        try:
            core.check(msgspec.convert(parameters, core.Parameters, strict=False), tuple(f"h{n}" for n in range(1, size + 1)))
        except ValueError as error:
            raise CannotRun(
                f"cases have {FEWEST_HOSTS} to {MOST_HOSTS} hosts, and protocol {protocol} refuses: {error}"
            ) from None
    return parameters


def _run_campaign(protocol: str, seeds: range, parameters: dict[str, Any], arguments: Namespace) -> campaigns.Tally:
    spark = None
    if arguments.spark_master:
        from analysis.crew import Crew  # noqa: PLC0415 - imports pyarrow, and a campaign starts at once

        spark = Crew(arguments.spark_master).session
    work = partial(campaigns.run_seed, protocol, parameters=parameters, medium=arguments.medium, brief=arguments.brief)
    tally = campaigns.Tally()
    with bar(f"{protocol}", len(seeds)) as advance:
        for line in spread(work, seeds, arguments.jobs, spark):
            tally.add(line)
            advance(f"{len(tally.failures)} failures")
    return tally


def print_tally(protocol: str, tally: campaigns.Tally, parameters: dict[str, Any]) -> None:
    """Print the verdicts of all cases, and the promises that they tested."""
    core = PROTOCOLS[protocol]
    # Which kinds of trouble there are does not depend on the number of hosts.
    every = math.comb(len(troubles(core, core.promise(core.Parameters(**parameters), hosts=3))), 2)
    output.print(
        f"{protocol}: {tally.cases} cases, {tally.events} events, {len(tally.pairs)} of {every} pairs of troubles covered"
    )
    output.print(f"  within its assumptions:  {_verdicts(tally.within)}")
    longest = {name: f", the longest took {longest_ms:.0f} ms" for name, longest_ms in tally.longest_ms.items()}
    if (one := str(Guarantee.ONE_TOKEN)) in tally.tested and Guarantee.VIEW_PROGRESS not in tally.tested:
        lived = f" for {tally.longest_ms[one]:.0f} ms at most" if one in tally.timed else ""
        longest[one] = f", a second one lived in {tally.timed[one]} of them{lived}"
    tested = ", ".join(f"{name} in {count}{longest.get(name, '')}" for name, count in tally.tested.items() if count) or "nothing"
    print_sentence(f"  tested:                  {tested}")
    if never := [name for name, count in tally.tested.items() if not count]:
        print_sentence(f"  no schedule tested:      {', '.join(never)}")
    if tally.happened:
        events = ", ".join(
            f"{WORDS.get(event, event)} in {count} ({count / tally.cases:.0%})" for event, count in sorted(tally.happened.items())
        )
        print_sentence(f"  events:                  {events}")
    if tally.beyond and not tally.within:
        output.print(
            "  every schedule was beyond them: look at beyond, most_lost and patience_ms of the protocol (docs/protocols.md)",
            soft_wrap=True,
        )
    if tally.beyond:
        lost = ", ".join(f"{name} in {count}" for name, count in sorted(tally.lost_beyond.items())) or "nothing lost"
        print_sentence(f"  beyond them:             {_verdicts(tally.beyond)}; {lost}")


def _verdicts(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdict} {verdicts[verdict]}" for verdict in Verdict)


def _replay(arguments: Namespace, protocol: str, parameters: dict[str, Any]) -> int:
    """Run one case again, by its seed or its file, and print its verdict and its trace."""
    what = arguments.replay
    if what.isdigit():
        case, _ = draw_case(protocol, int(what), parameters, arguments.medium, brief=arguments.brief)
    else:
        case = cases.load(Path(what))
    result = cases.run(case)
    if arguments.json:
        sys.stdout.buffer.write(msgspec.json.encode({"case": case, "result": result}) + b"\n")
    else:
        output.print(msgspec.json.format(msgspec.json.encode(case)).decode(), soft_wrap=True)
        from analysis.pages.terminal_tables import judgement_table  # noqa: PLC0415 - takes long to import, and a campaign starts at once

        print_table(judgement_table(result.judgement))
        output.print(f"trace {result.trace}", soft_wrap=True)
    return status_of([result.judgement.verdict])
