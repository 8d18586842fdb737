"""Starts the agents of a run: one process imports everything, and forks once for each host.

A fork takes milliseconds of processor time and shares memory with the launcher; a new interpreter would take a tenth of a second. The
testbed talks to the launcher in lines:

    on its standard input    a `StartOrder`, as JSON
    on its standard output   ready HOST PID          the agent is bound and its core has started
                             crash HOST NUMBER       the agent is about to kill itself: this crash of its `StartOrder` is due
                             died HOST STATUS        the process ended: an exit status, or minus a signal; if its core has raised an
                                                     exception, `Setting.failure` is the file that says which

When its standard input ends, because the testbed closed it or died, the launcher kills its agents and exits: no run leaves agents behind.
"""

import asyncio
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from hostagent.protocols import PROTOCOLS
from hostagent.runtime import own
from hostagent.runtime.agent import Agent, Setting
from hostagent.runtime.control import StartOrder
from hostagent.runtime.failures import CoreFailed
from hostagent.runtime.namespace import die_with_parent, enter


class LaunchOrder(msgspec.Struct, frozen=True):
    """What the launcher is told at its start: the setting of the run, and the network namespace of each host."""

    setting: Setting
    namespaces: dict[str, str]


def serve(order: LaunchOrder) -> None:
    """Start agents as asked until standard input ends; report every death."""
    if order.setting.own is not None:
        own.load({order.setting.protocol: order.setting.own})
    agents: dict[int, str] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _reap(agents))
    for line in iter(sys.stdin.readline, ""):
        start = msgspec.json.decode(line, type=StartOrder)
        with _held(signal.SIGCHLD):
            agents[_fork_agent(order, start)] = start.host
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for pid in agents:
        os.kill(pid, signal.SIGKILL)


@contextmanager
def _held(number: signal.Signals) -> Iterator[None]:
    """Block a signal: the launcher must know the name of a new agent before it reports that the agent died."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})


def _reap(agents: dict[int, str]) -> None:
    """Report every agent that has ended. A nested call, from another signal, may report some of them."""
    while agents:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        # What a program has started itself may be left.
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _report(f"died {agents.pop(pid)} {os.waitstatus_to_exitcode(status)}")


def _fork_agent(order: LaunchOrder, start: StartOrder) -> int:
    """Fork; the child becomes the agent and never returns."""
    launcher = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            die_with_parent(launcher)
            # With its program, if it has one: both are paused together.
            os.setpgid(0, 0)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            enter(Path(order.namespaces[start.host]))
            asyncio.run(_run_agent(order.setting, start))
            status = 0
        except CoreFailed as failed:
            with suppress(OSError):
                sys.stderr.write(failed.failure.trace)
                sys.stderr.flush()
                order.setting.failure(start.host).write_bytes(msgspec.json.encode(failed.failure))
        except BaseException:  # noqa: BLE001 - nothing may escape into the launcher
            # If the disk is full, the traceback may not fit either.
            with suppress(OSError):
                traceback.print_exc()
                sys.stderr.flush()
        finally:
            os._exit(status)
    return pid


async def _run_agent(setting: Setting, start: StartOrder) -> None:
    agent = Agent(PROTOCOLS[setting.protocol], setting, start)
    _report(f"ready {start.host} {os.getpid()}")
    await agent.run()


def _report(line: str) -> None:
    """One write, so that lines of different processes do not mix."""
    os.write(1, f"{line}\n".encode())


def main() -> None:
    """Read the order from the file named on the command line and serve."""
    order = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=LaunchOrder)
    # Standard output is for reports: what a protocol prints goes where errors go.
    sys.stdout = sys.stderr
    # The testbed handles Ctrl-C, and then closes the launcher's standard input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    serve(order)


if __name__ == "__main__":
    main()
