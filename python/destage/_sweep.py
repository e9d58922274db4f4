"""Sweeps: a grid of settings over traces, as rows of Parquet, here or on a Dask cluster (docs/sweeps.md)."""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

from . import _destage
from ._cluster import on_workers, same_program
from ._fetched import fetched
from ._progress import Progress
from ._results import Record
from ._trace import Trace

Grid: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]


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
    at_urls = [(url, fetched(url)) for url in _destage.sweep_urls(text, file)]
    plan = _destage.SweepPlan(text, file, out, at_urls)
    with Progress(plan.far(), sys.stderr.isatty() if progress is None else progress) as shown:
        for note in plan.notes():
            shown.say(f"destage: {note}")
        if on is None:
            summary = plan.local(threads, shown.reach)
        else:
            on_workers(plan, on, shown)
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
        same_program(given.program)
        done = _swept(Path(given.file).read_text(encoding="utf-8"), given.file, Path(given.out), given.on, None, given.progress)
    except (_destage.DestageError, OSError) as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps({"summary": cast(Any, done.to_dict())}))
    return 0
