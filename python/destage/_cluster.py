"""Sweeps on the workers of a Dask scheduler (docs/sweeps.md)."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable
from typing import Any

from . import _destage
from ._fetched import fetched
from ._progress import Progress

#: How often a task is tried again whose worker raised something, such as that a store does not answer.
RETRIES = 2
#: Seconds after which it is said that there is no worker.
PATIENCE = 30.0


def work(group: str) -> tuple[int, bytes | None, str, float]:
    """Carries out a group, where a worker is."""
    began = time.perf_counter()
    try:
        trace = json.loads(group)["trace"]
        file = None
        if trace and "://" in trace["place"]:
            file = fetched(trace["place"], trace["files"][0][1])
        rows, part, failed = _destage.sweep_run(group, file)
    except _destage.DestageError as error:
        worker = importlib.import_module("distributed").get_worker()
        raise _destage.DestageError(f"worker {worker.address}: {error}") from None
    return rows, part, failed, time.perf_counter() - began


def on_workers(plan: _destage.SweepPlan, on: Any, shown: Progress) -> None:
    """Has workers run all that is left. This process alone writes rows, as they come."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise _destage.DestageError("'on' needs Dask: pip install 'destage[dask]'") from None
    if not isinstance(on, str):
        _submit(plan, on, distributed, shown)
        return
    try:
        client = distributed.Client(on, timeout=30, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _destage.DestageError(f"{on}: no Dask scheduler answers: {error}") from None
    with client:
        _submit(plan, client, distributed, shown)


def _lanes(client: Any, distributed: Any, shown: Progress) -> int:
    """How many tasks workers do at a time; waits until there is one."""
    while not (lanes := sum(client.nthreads().values())):
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            shown.say(f"destage: {client.scheduler.address} has no workers yet; waiting for one")
    return int(lanes)


def _submit(plan: _destage.SweepPlan, client: Any, distributed: Any, shown: Progress) -> None:
    waiting: dict[Any, tuple[str, int, str]] = {}
    ended = distributed.as_completed(loop=client.loop)
    lanes = _lanes(client, distributed, shown)

    def submit(group: tuple[str, int, str]) -> None:
        # The same runs have the same name, so that nothing is done twice; what they bring is always the same.
        future = client.submit(work, group[2], key=f"destage-sweep-{group[0]}", pure=False, retries=RETRIES)
        waiting[future] = group
        ended.add(future)

    def fill() -> None:
        # Enough that no worker waits for this process, and little enough that results do not heap up.
        while len(waiting) < 2 * lanes and (group := plan.next(lanes)):
            submit(group)

    fill()
    if not waiting:
        return
    try:
        for future in ended:
            group = waiting.pop(future)
            if future.status == "finished":
                plan.take(*future.result())
            else:
                _failed(plan, future, group, submit, distributed)
            shown.reach(plan.far()[2], plan.far()[0])
            lanes = _lanes(client, distributed, shown)
            fill()
    finally:
        client.cancel(list(waiting), force=True)


def _failed(
    plan: _destage.SweepPlan, future: Any, group: tuple[str, int, str], submit: Callable[[tuple[str, int, str]], None], distributed: Any
) -> None:
    if future.status == "cancelled":
        raise _destage.DestageError("the scheduler has dropped runs; the same call goes on with what is left")
    error = future.exception()
    if isinstance(error, distributed.scheduler.KilledWorker):
        # Which of them is it?
        if group[1] > 1:
            for alone in _destage.sweep_split(group[2]):
                submit(alone)
        else:
            plan.lose(group[2], "workers died of it, as they do that have too little memory")
    elif isinstance(error, _destage.DestageError):
        raise error
    else:
        raise _destage.DestageError(f"a worker cannot run this: {type(error).__name__}: {error}; is destage installed there?") from error
