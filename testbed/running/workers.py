"""Calls one function for many items, in processes on this machine's cores, or on a Spark cluster if the user names one.

Results come in the order of the items, however many workers there are. An exception in a worker is raised here too, and the death of a
worker raises an exception. If the caller stops early, for example on Ctrl-C, the workers are ended first.
"""

import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from hostagent.runtime import own
from hostagent.runtime.failures import CoreFailed
from testbed.errors import CannotRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")
# Items that a worker takes at a time: fewer need more messages between processes, more leave workers idle at the end.
MOST_AT_A_TIME = 10
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Items in one Spark job for each core: few enough that the progress bar moves.
IN_A_JOB_PER_CORE = 10


def spread(
    work: Callable[[T], R],
    items: Sequence[T],
    jobs: int | None = None,
    spark: "Callable[[], SparkSession] | None" = None,
    at_a_time: int = MOST_AT_A_TIME,
) -> Iterator[R]:
    """The results of `work` in the order of `items`, from Spark or from `jobs` processes; by default one for each usable core.

    A worker takes up to `at_a_time` items together; where each of them takes long it is to be one.
    """
    if not items:
        return iter(())
    preload = work.func.__module__ if isinstance(work, functools.partial) else work.__module__
    if own.LOADED:
        work = functools.partial(_with_protocols, dict(own.LOADED), work)
    if spark is None:
        jobs = min(jobs or len(os.sched_getaffinity(0)), len(items))
        return _in_processes(work, items, jobs, at_a_time, preload)
    if jobs is not None:
        raise CannotRun("--jobs is for the cores of this machine: leave it out with --spark-master")
    return _on_spark(work, items, spark())


def _with_protocols(protocols: Mapping[str, own.Own], work: Callable[[T], R], item: T) -> R:
    """Do the work in a process that knows these protocols of users. What their files raise is told apart here: no traceback travels."""
    own.load(protocols)
    try:
        return work(item)
    except CoreFailed:
        raise
    except Exception as error:
        if users := own.blamed(error):
            raise users from error
        raise


def _in_processes(work: Callable[[T], R], items: Sequence[T], jobs: int, at_a_time: int, preload: str) -> Iterator[R]:
    # A server process forks the workers: this process has threads, and a fork of it could wait for ever for a lock that a thread held.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([preload])
    pool = ProcessPoolExecutor(jobs, context, initializer=_end_with_parent)
    others = multiprocessing.active_children()
    try:
        with _signals_held_back():
            results = pool.map(work, items, chunksize=max(1, min(at_a_time, len(items) // (4 * jobs))))
        yield from results
    except BrokenProcessPool:
        raise CannotRun("a worker process was killed, perhaps because memory ran out: use fewer processes with --jobs") from None
    except BaseException:
        for worker in set(multiprocessing.active_children()).difference(others):
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Delay signals such as Ctrl-C until all workers are started and can be ended. Workers inherit the blocked signals.

    Blocking alone is not enough: a signal may reach another thread, and Python handles it in this one.
    """
    came: list[int] = []
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    handlers = {number: signal.signal(number, lambda number, _: came.append(number)) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for late in came:
            signal.raise_signal(late)


def _end_with_parent() -> None:
    """End this worker when the command ends, even if it is killed: an idle worker would wait for ever, as it holds its pipe open."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker has a parent"

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_spark(work: Callable[[T], R], items: Sequence[T], spark: "SparkSession") -> Iterator[R]:
    """Call the function on a Spark cluster. Its workers need Castbed's modules and the user's files at the same paths as here."""
    context = spark.sparkContext
    size = IN_A_JOB_PER_CORE * context.defaultParallelism
    for some in (items[start : start + size] for start in range(0, len(items), size)):
        yield from context.parallelize(some, len(some)).map(work).collect()
