"""Sweeps: a grid of settings over traces, as rows of Parquet, here or on a Dask cluster (docs/sweeps.md)."""

from __future__ import annotations

import hashlib
import html
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TextIO, TypeAlias, cast

from . import _destage
from ._results import Record
from ._trace import Trace

Grid: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
#: Names the folder in which traces are kept that were fetched.
CACHE = "DESTAGE_CACHE"
#: How often a task is tried again whose worker raised something, such as that a store does not answer.
RETRIES = 2
#: Seconds between lines of progress where there is no terminal.
EVERY = 10.0
#: Seconds after which it is said that there is no worker.
PATIENCE = 30.0
BLOCK = 1 << 20


class Sweep:
    """What became of a sweep. The rows are in a file, `file`, and are read by `table()`."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self._summary = dict(summary)

    @property
    def file(self) -> Path:
        """The Parquet file with all rows, in the order of the plan."""
        return Path(_destage.path_of_text(self._summary["file"]))

    @property
    def runs(self) -> int:
        """Different runs of the grid."""
        return int(self._summary["runs"])

    @property
    def known(self) -> int:
        """Those of them that were there before."""
        return int(self._summary["known"])

    @property
    def simulated(self) -> int:
        """Those that were simulated now."""
        return int(self._summary["simulated"])

    @property
    def failed(self) -> list[Record]:
        """Those that have no result: `key`, `run` and `error` of each. The next sweep tries them again."""
        return [Record(failed) for failed in self._summary["failed"]]

    @property
    def best(self) -> list[Record]:
        """The best runs over each trace: `trace`, `policy`, `cache_bytes` (B), `grid`, `objective` and `value` in words."""
        return [Record(run) for run in self._summary["best"]]

    def table(self) -> _destage.Table:
        """The rows as an Arrow table with units, for Polars, pandas and pyarrow. Columns are described in docs/sweeps.md."""
        return _destage.sweep_table(self.file)

    def to_dict(self) -> dict[str, Any]:
        """What `destage sweep --json` tells."""
        return dict(self._summary)

    def __len__(self) -> int:
        return int(self._summary["rows"])

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} without a result" if self.failed else ""
        return f"<Sweep: {len(self)} rows in {self.file}; {self.simulated} runs simulated, {self.known} known{failed}>"

    def _repr_html_(self) -> str:
        keys: list[str] = []
        for run in self._summary["best"]:
            keys += [key for key, _ in run["grid"] if key not in keys]
        rows = [["trace", "policy", "cache", *keys, "best"]]
        for run in self._summary["best"]:
            size = "" if run["cache_bytes"] is None else f"{run['cache_bytes']} B"
            grid = dict(run["grid"])
            rows.append([run["trace"], run["policy"], size, *(grid.get(key, "") for key in keys), f"{run['objective']} {run['value']}"])
        cells = [(("th" if at == 0 else "td"), row) for at, row in enumerate(rows)]
        text = "".join("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>" for tag, row in cells)
        return f"<p>{html.escape(repr(self))}</p><table>{text}</table>"


def sweep(
    grid: Grid | PathLike[str],
    traces: Iterable[Trace | str | PathLike[str]] | Trace | str | PathLike[str] | None = None,
    *,
    scenario: str | PathLike[str] | Mapping[str, Any] | None = None,
    out: str | PathLike[str],
    on: Any = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Sweep:
    """Runs every value of each key with every value of the others over each trace, and keeps the rows as Parquet.

    grid: keys of `destage.settings()` with lists of values; several mappings are united. Or the path of a sweep file.
    traces: files or patterns such as "msr/*.csv", and with fsspec URLs ("s3://bucket/trace.csv.gz"), which each machine
        fetches once into ~/.cache/destage (or $DESTAGE_CACHE). None: the scenario names a trace or a workload.
    scenario: settings that all runs share, as the text of a TOML file, as its path (a `Path`), or as a mapping.
    out: the folder of the rows. What is there already is not computed again.
    on: the address of a Dask scheduler ("tcp://scheduler:8786"), or a `distributed.Client`; threads of this process without.
    threads: of this process; all processors unless the scenario says otherwise.
    progress: tell on the standard error how far it is; by default where that is a terminal.

    Rows are the same bytes with any number of threads and workers, and however often it was interrupted. Runs without a
    result are in `.failed`. Raises `DestageError` for whatever is wrong with the grid or the traces, before anything runs,
    and KeyboardInterrupt upon Ctrl-C: the same call goes on then.
    """
    if isinstance(grid, PathLike):
        if traces is not None or scenario is not None:
            raise _destage.DestageError("a sweep file has its own traces and scenario: give a mapping as the grid, or leave them out")
        text, file = Path(grid).read_text(encoding="utf-8"), str(grid)
    else:
        text, file = _description(grid, traces, scenario), "sweep"
    return _swept(text, file, Path(out), on, threads, progress)


def _swept(text: str, file: str, out: Path, on: Any, threads: int | None, progress: bool | None) -> Sweep:
    if on is not None and threads is not None:
        raise _destage.DestageError("'threads' has no meaning with 'on': workers have their own")
    fetched = [(url, _fetched(url)) for url in _destage.sweep_urls(text, file)]
    plan = _destage.SweepPlan(text, file, out, fetched)
    with _Progress(plan.far(), sys.stderr.isatty() if progress is None else progress) as shown:
        for note in plan.notes():
            shown.say(f"destage: {note}")
        if on is None:
            summary = plan.local(threads, shown.reach)
        else:
            _on_workers(plan, on, shown)
            summary = plan.finish()
    return Sweep(json.loads(summary))


# What is swept, as a sweep file has it.


def _description(grid: Grid, traces: Any, scenario: Any) -> str:
    lines = []
    if traces is not None:
        single = isinstance(traces, (str, PathLike, Trace))
        lines.append(f"traces = [{', '.join(_trace(trace) for trace in ([traces] if single else traces))}]")
    if isinstance(scenario, PathLike):
        lines.append(f"scenario = {_toml(str(Path(scenario).absolute()))}")
    elif isinstance(scenario, str):
        import tomllib

        try:
            lines.append(f"scenario = {_table(tomllib.loads(scenario))}")
        except tomllib.TOMLDecodeError as error:
            raise _destage.DestageError(f"scenario: {error}") from None
    elif scenario is not None:
        lines.append(f"scenario = {_table(scenario)}")
    blocks = [grid] if isinstance(grid, Mapping) else list(grid)
    lines.append(f"grid = [{', '.join(_table(block) for block in blocks)}]")
    return "\n".join(lines) + "\n"


def _trace(trace: Any) -> str:
    if isinstance(trace, Trace):
        lenient = ", lenient = true" if trace.lenient else ""
        return f"{{ file = {_toml(_destage.path_text(trace.path))}, format = {_toml(trace.format)}{lenient} }}"
    return _toml(_destage.path_text(trace) if isinstance(trace, PathLike) else trace)


def _table(values: Mapping[str, Any]) -> str:
    # `from` is a word of Python's.
    names = {name: name.rstrip("_").replace("_", "-") for name in values}
    pairs = [f"{_toml(names[name])} = {_toml(value)}" for name, value in values.items() if value is not None]
    return f"{{ {', '.join(pairs)} }}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, PathLike):
        value = _destage.path_text(value)
    if isinstance(value, str):
        # A text of JSON is one of TOML, but for this character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, Mapping):
        return _table(value)
    if isinstance(value, Iterable):
        return f"[{', '.join(_toml(item) for item in value)}]"
    raise _destage.DestageError(f"{value!r} is no value of a setting: text, a number, True or False is")


# Traces that are fetched.


def _cache() -> Path:
    given = os.environ.get(CACHE)
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "destage"


def _file_name(url: str) -> str:
    return url.split("?")[0].rstrip("/").rsplit("/", 1)[-1] or "trace"


def _fetched(url: str, content: str | None = None) -> Path:
    """The file with what is at a URL, fetched unless it is here; `content` is the SHA-256 that it has to have."""
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise _destage.DestageError(f"{url}: URLs need fsspec: pip install 'destage[dask]'") from None
    cache, name = _cache(), _file_name(url)
    known = cache / content / name if content else None
    if known and known.exists():
        return known
    try:
        system, path = fsspec.core.url_to_fs(url)
        seen = None
        if content is None:
            # What a store says that is there now, so that it need not be fetched to know what it is.
            try:
                seen = cache / "seen" / hashlib.sha256(f"{url} {system.ukey(path)}".encode()).hexdigest()
                known = cache / seen.read_text() / name
                if known.exists():
                    return known
            except (OSError, NotImplementedError, ValueError):
                pass
        cache.mkdir(parents=True, exist_ok=True)
        part, found = tempfile.mkstemp(prefix=".part-", dir=cache), hashlib.sha256()
        try:
            with system.open(path, "rb") as source, os.fdopen(part[0], "wb") as to:
                while block := source.read(BLOCK):
                    found.update(block)
                    to.write(block)
            if content and found.hexdigest() != content:
                raise _destage.DestageError(f"{url}: holds something else than when the sweep was planned")
            file = cache / found.hexdigest() / name
            file.parent.mkdir(exist_ok=True)
            os.replace(part[1], file)
        finally:
            Path(part[1]).unlink(missing_ok=True)
        if seen:
            seen.parent.mkdir(exist_ok=True)
            seen.write_text(found.hexdigest())
    except (OSError, ValueError, ImportError) as error:
        raise _destage.DestageError(f"{url}: cannot be fetched: {error}") from None
    return file


# On a Dask cluster.


def _work(group: str) -> tuple[int, bytes | None, str, float]:
    """Carries out a group, where a worker is."""
    began = time.perf_counter()
    try:
        trace = json.loads(group)["trace"]
        file = None
        if trace and "://" in trace["place"]:
            file = _fetched(trace["place"], trace["files"][0][1])
        rows, part, failed = _destage.sweep_run(group, file)
    except _destage.DestageError as error:
        worker = importlib.import_module("distributed").get_worker()
        raise _destage.DestageError(f"worker {worker.address}: {error}") from None
    return rows, part, failed, time.perf_counter() - began


def _on_workers(plan: _destage.SweepPlan, on: Any, shown: _Progress) -> None:
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


def _lanes(client: Any, distributed: Any, shown: _Progress) -> int:
    """How many tasks workers do at a time; waits until there is one."""
    while not (lanes := sum(client.nthreads().values())):
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            shown.say(f"destage: {client.scheduler.address} has no workers yet; waiting for one")
    return int(lanes)


def _submit(plan: _destage.SweepPlan, client: Any, distributed: Any, shown: _Progress) -> None:
    waiting: dict[Any, tuple[str, int, str]] = {}
    ended = distributed.as_completed(loop=client.loop)
    lanes = _lanes(client, distributed, shown)

    def submit(group: tuple[str, int, str]) -> None:
        # The same runs have the same name, so that nothing is done twice; what they bring is always the same.
        future = client.submit(_work, group[2], key=f"destage-sweep-{group[0]}", pure=False, retries=RETRIES)
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


# How far it is.


class _Progress:
    def __init__(self, far: tuple[int, int, int], wanted: bool, out: TextIO | None = None) -> None:
        self._runs, self._known, self._done = far
        self._wanted, self._out = wanted, out or sys.stderr
        self._live = wanted and self._out.isatty()
        self._began = self._told = time.monotonic()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\033[K", end="", file=self._out, flush=True)

    def say(self, text: str) -> None:
        """Says what should be known."""
        print(f"\r\033[K{text}" if self._live else text, file=self._out, flush=True)

    def words(self, seconds: float) -> str:
        """How far it is after so many seconds."""
        known = f" ({self._known:,} known)" if self._known else ""
        now = self._done - self._known
        left = seconds * (self._runs - self._done) / now if now > 0 else None
        unit, name = (60, "min") if left and left >= 90 else (1, "s")
        time_left = "time left unknown" if left is None else f"about {left / unit:.0f} {name} left"
        return f"{self._done:,} of {self._runs:,} runs{known}, {time_left}"

    def reach(self, done: int, runs: int) -> None:
        """So many of so many runs are done."""
        self._done, self._runs = done, runs
        now = time.monotonic()
        if not self._wanted or now - self._told < (0.2 if self._live else EVERY):
            return
        self._told = now
        text = self.words(now - self._began)
        print(f"\r\033[K{text}" if self._live else text, end="" if self._live else "\n", file=self._out, flush=True)


def main(arguments: Sequence[str]) -> int:
    """What `destage sweep --on` calls: the last line of its standard output tells how it went."""
    import argparse

    parser = argparse.ArgumentParser(prog="destage._sweep")
    parser.add_argument("file")
    parser.add_argument("--out", required=True)
    parser.add_argument("--on", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--progress", action=argparse.BooleanOptionalAction, default=True)
    given = parser.parse_args(arguments)
    try:
        if given.program != _destage.PROGRAM:
            raise _destage.DestageError(
                f"the Python package was built from other sources ({_destage.PROGRAM[:12]}) than the command line "
                f"({given.program[:12]}), and rows of both do not go together: install the same"
            )
        done = _swept(Path(given.file).read_text(encoding="utf-8"), given.file, Path(given.out), given.on, None, given.progress)
    except (_destage.DestageError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"summary": cast(Any, done.to_dict())}))
    return 0
