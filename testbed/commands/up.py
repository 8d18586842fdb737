"""The command up: a network that stays up until its command line ends."""

import contextlib
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn, Self

from analysis.crew import Crew
from hostagent.runtime.own import LOADED
from scenarios import Scenario, Variant, Workload
from scenarios.scenario import dump as dump_scenario
from testbed.commands.run import analyse_runs, in_guest, kept_runs_told, new_results
from testbed.errors import CannotRun
from testbed.live import remote
from testbed.live.session import Live
from testbed.network import doctor, vm
from testbed.ownership import hand_over
from testbed.running import runner
from testbed.running.runner import Stage
from testbed.running.settings import choose, split_settings
from testbed.running.tasks import Task, promise_of
from testbed.status import HOLDS
from testbed.terminal import Progress, errors, on_end, progress
from topologies import find


def up(arguments: Namespace) -> int:
    """Bring a network up with agents and a stream of broadcasts, open the command line, and analyse the run when that ends."""
    settings, parameters = split_settings(arguments.set)
    if settings:
        raise CannotRun(f"--set {next(iter(settings))}: up sets only parameters of the protocol, as PROTOCOL.PARAMETER=VALUE")
    workload = Workload(interval=arguments.interval, payload=arguments.payload)
    scenario = Scenario(network=find(arguments.topology), sources=tuple(arguments.source), workload=workload)
    (variant,) = choose([Variant(arguments.protocol, scenario, arguments.protocol)], (), parameters)
    if variant.protocol in LOADED and LOADED[variant.protocol].is_guest:
        raise CannotRun(
            f"{variant.protocol} is a guest, whose packets the views of a live network cannot read: use ./castbed run"
        )
    name = arguments.name or scenario.network.name.partition(":")[0]
    if name in remote.running():
        raise CannotRun(f"a network called {name!r} is up already: choose another name with --name")
    out = arguments.out or new_results("up")
    task = Task(
        *("up", scenario, {}, variant.protocol, dict(variant.parameters), arguments.seed, out / variant.label),
        *(variant.label, arguments.pack, arguments.medium, arguments.full_packets),
    )
    hand_over(out)
    with kept_runs_told([task.output], out):
        if arguments.vm_words is not None:
            status, spark = in_guest(arguments.vm_words, [task.output], out, arguments.spark_master, reads=True)
            return analyse_runs([task.output], spark, out, as_json=arguments.json) if spark else status
        machine = doctor.require(out)
        runner.refuse_impossible(task, machine)
        errors.print(f"{name}: {scenario.network.name}; {machine.datapath} datapath; links by {machine.shaping}", soft_wrap=True)
        with _ended_from_outside(), _Pausable(name) as shown:
            runner.run(task, machine, shown, play=lambda stage, _: _converse(stage, name, arguments.lasts, shown))
        if vm.is_guest():
            return HOLDS
        return analyse_runs([task.output], Crew(arguments.spark_master), out, as_json=arguments.json)


def _converse(stage: Stage, name: str, lasts_ms: float | None, shown: "_Pausable") -> None:
    """Open the command line, or wait until the time is over; then wait until every host has every message."""
    private = Path(stage.agents.setting.private)
    with Live(stage, name) as live, remote.serve(live, private), shown.paused():
        if lasts_ms is None:
            # Imported only now, as importing it starts readline, which prints to terminals.
            from testbed.live.cli import LiveCLI  # noqa: PLC0415 - starts readline

            LiveCLI(stage.emulation.net, live)
        else:
            errors.print(f"{name} is up for {lasts_ms / 1000:g} s; Ctrl-C ends it earlier", soft_wrap=True)
            with contextlib.suppress(KeyboardInterrupt):
                live.wait(lasts_ms / 1000)
        with contextlib.suppress(KeyboardInterrupt), progress(name) as show:
            show("waiting until every host has every message", "(Ctrl-C stops waiting)")
            live.settle(promise_of(stage.task))
        dump_scenario(live.asked(), stage.task.output / "scenario.json")


class _Pausable(Progress):
    """Shows progress except while something else uses the terminal."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._show = self._stack.enter_context(progress(self._prefix))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, stage: str, detail: str = "") -> None:
        self._show(stage, detail)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to the body."""
        self._stack.close()
        try:
            yield
        finally:
            self._show = self._stack.enter_context(progress(self._prefix))


@contextmanager
def _ended_from_outside() -> Iterator[None]:
    """End Mininet's command line on SIGTERM and when the terminal is closed. Ctrl-C does not end it."""

    def end() -> NoReturn:
        raise SystemExit(130)

    before = on_end(end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
