"""Runs on the workers of a Dask scheduler: those of sweeps, of papers and for advice (docs/sweeps.md)."""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

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
    with _named_errors():
        rows, part, failed = _destage.sweep_run(group, _trace(group))
    return rows, part, failed, time.perf_counter() - began


def work_whole(group: str) -> str:
    """The same of what is wanted whole: results as JSON."""
    with _named_errors():
        return _destage.whole_run(group, _trace(group))


def _trace(group: str) -> Path | None:
    """The file that a trace at a URL was fetched into."""
    trace = json.loads(group)["trace"]
    return fetched(trace["place"], trace["files"][0][1]) if trace and "://" in trace["place"] else None


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except _destage.DestageError as error:
        worker = importlib.import_module("distributed").get_worker()
        raise _destage.DestageError(f"worker {worker.address}: {error}") from None


def _distributed() -> Any:
    try:
        return importlib.import_module("distributed")
    except ImportError:
        raise _destage.DestageError("'on' needs Dask: pip install 'destage[dask]'") from None


def _client(on: str, distributed: Any) -> Any:
    try:
        return distributed.Client(on, timeout=30, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _destage.DestageError(f"{on}: no Dask scheduler answers: {error}") from None


def on_workers(plan: _destage.SweepPlan, on: Any, shown: Progress) -> None:
    """Has workers run all that is left. This process alone writes rows, as they come."""
    distributed = _distributed()
    if not isinstance(on, str):
        _submit(plan, on, distributed, shown)
        return
    with _client(on, distributed) as client:
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
    else:
        raise _wrong(error) from error


def _wrong(error: BaseException) -> _destage.DestageError:
    """What is wrong where a worker raised something."""
    if isinstance(error, _destage.DestageError):
        return error
    return _destage.DestageError(f"a worker cannot run this: {type(error).__name__}: {error}; is destage installed there?")


class _Whole:
    """Groups whose results are wanted whole, by numbers, and what is told of them."""

    def __init__(self, client: Any, distributed: Any, out: TextIO) -> None:
        self._client, self._distributed, self._out = client, distributed, out
        self._lock = threading.Lock()
        # Futures that are dropped are cancelled.
        self._waiting: set[Any] = set()

    def tell(self, **told: Any) -> None:
        with self._lock:
            print(json.dumps(told), file=self._out, flush=True)

    def say_if_nobody_works(self, ended: threading.Event) -> None:
        while not ended.wait(PATIENCE):
            with self._lock:
                waiting = bool(self._waiting)
            if waiting and not self._client.nthreads():
                print(f"destage: {self._client.scheduler.address} has no workers; waiting for one", file=sys.stderr, flush=True)

    def submit(self, number: int, name: str, runs: int, group: str, ended: Callable[[Any], None] | None = None) -> None:
        future = self._client.submit(work_whole, group, key=f"destage-whole-{name}-{number}", pure=False, retries=RETRIES)
        with self._lock:
            self._waiting.add(future)
        future.add_done_callback(ended or (lambda future: self._ended(number, runs, group, future)))

    def _brought(self, future: Any) -> str | BaseException:
        with self._lock:
            self._waiting.discard(future)
        if future.status == "finished":
            return str(future.result())
        if future.status == "cancelled":
            return _destage.DestageError("the scheduler has dropped runs")
        error: BaseException = future.exception()
        return error

    def _ended(self, number: int, runs: int, group: str, future: Any) -> None:
        brought = self._brought(future)
        if isinstance(brought, str):
            self.tell(done={"number": number, "results": brought})
        elif not isinstance(brought, self._distributed.scheduler.KilledWorker):
            self.tell(failed={"number": number, "error": str(_wrong(brought))})
        elif runs > 1:
            self._each_alone(number, group)
        else:
            self.tell(failed={"number": number, "error": "workers died of it, as they do that have too little memory"})

    def _each_alone(self, number: int, group: str) -> None:
        """Which of its runs was it? They may fit one by one."""
        alone = _destage.sweep_split(group)
        results: dict[int, list[Any]] = {}

        def ended(at: int, future: Any) -> None:
            brought = self._brought(future)
            if isinstance(brought, str):
                with self._lock:
                    results[at] = json.loads(brought)
                    complete = len(results) == len(alone)
                if complete:
                    self.tell(done={"number": number, "results": json.dumps([run for at in sorted(results) for run in results[at]])})
            elif isinstance(brought, self._distributed.scheduler.KilledWorker):
                self.tell(failed={"number": number, "error": "workers died of it, as they do that have too little memory"})
            else:
                self.tell(failed={"number": number, "error": str(_wrong(brought))})

        for at, (name, runs, text) in enumerate(alone):
            self.submit(number, name, runs, text, partial(ended, at))


def main(arguments: Sequence[str]) -> int:
    """What `destage advise --on` and `destage reproduce --on` call: lines of groups come in, and lines of what became of them go out."""
    import argparse

    parser = argparse.ArgumentParser(prog="destage._cluster")
    parser.add_argument("--on", required=True)
    parser.add_argument("--program", required=True)
    given = parser.parse_args(arguments)
    # What libraries print is for people.
    out, sys.stdout = sys.stdout, sys.stderr
    try:
        same_program(given.program)
        distributed = _distributed()
        with _client(given.on, distributed) as client:
            whole = _Whole(client, distributed, out)
            whole.tell(ready={})
            ended = threading.Event()
            threading.Thread(target=whole.say_if_nobody_works, args=[ended], daemon=True).start()
            try:
                for line in sys.stdin:
                    whole.submit(**json.loads(line))
            finally:
                ended.set()
    except (_destage.DestageError, OSError) as error:
        print(json.dumps({"error": str(error)}), file=out, flush=True)
        return 1
    return 0


def same_program(program: str) -> None:
    """Refuses to work for a command line of other sources."""
    if program != _destage.PROGRAM:
        raise _destage.DestageError(
            f"the Python package was built from other sources ({_destage.PROGRAM[:12]}) than the command line "
            f"({program[:12]}), and rows of both do not go together: install the same"
        )
