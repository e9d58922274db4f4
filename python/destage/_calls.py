"""What can be called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

from . import _destage
from ._policy import Policy
from ._results import Advice, Experiment, MissRatioCurves
from ._trace import Trace

Scalar: TypeAlias = str | int | float | bool | PathLike[str]
Value: TypeAlias = Scalar | Sequence[Scalar] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Setting:
    """A setting of `simulate` or `synth`."""

    name: str
    """Its name on the command line; in Python `-` is `_`, and `ssd.planes` is `ssd={"planes": ...}`."""
    value: str
    """What stands for its value in the help."""
    default: str
    """The value where none is given; empty where there is none."""
    help: str
    """What it does."""


def settings(of: str = "simulate") -> list[Setting]:
    """Every setting of `simulate` ("simulate") or `synth` ("synth"), from the command line's own list."""
    if of not in ("simulate", "synth"):
        raise _destage.DestageError(f"there are no settings of '{of}', only of simulate and synth")
    return [Setting(*setting) for setting in _destage.settings(of == "synth")]


def policies() -> list[tuple[str, str, str]]:
    """Name, title and place ("ssd" or "host") of every built-in policy."""
    return _destage.policies()


def formats() -> list[tuple[str, str, bool]]:
    """Name, meaning, and whether it is written as well as read, of every format of traces."""
    return _destage.formats()


def workloads() -> list[tuple[str, str]]:
    """Name and meaning of every built-in workload, for `simulate(workload=...)` and `synth(..., workload=...)`."""
    return _destage.workloads()


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _destage.path_text(value) if isinstance(value, PathLike) else str(value)


def _given(values: Mapping[str, Any], table: str = "") -> Iterable[tuple[str, list[str]]]:
    """Settings under the names of the command line."""
    for name, value in values.items():
        # `from` is a word of Python's.
        name = table + name.rstrip("_").replace("_", "-")
        if isinstance(value, Mapping):
            yield from _given(value, f"{name}.")
        elif value is None:
            continue
        elif isinstance(value, (str, PathLike)) or not isinstance(value, Iterable):
            yield name, [_text(value)]
        else:
            yield name, [_text(item) for item in value]


def _policies(values: Any) -> tuple[list[str], list[tuple[str, str, Callable[[int, int], object]]]]:
    """Names of policies, and those of them that are written in Python."""
    names: list[str] = []
    own: list[tuple[str, str, Callable[[int, int], object]]] = []
    single = isinstance(values, (str, type)) or not isinstance(values, Iterable)
    for policy in [values] if single else values:
        if isinstance(policy, str):
            names.append(policy)
        elif isinstance(policy, type) and issubclass(policy, Policy):
            name = policy.name or f"python-{policy.__name__}"
            names.append(name)
            own.append((name, policy.unit, policy))
        else:
            raise _destage.DestageError(f"policy {policy!r}: a name, or a class that is derived from destage.Policy")
    return names, own


def _asked(
    trace: Trace | str | PathLike[str] | None,
    scenario: str | PathLike[str] | Mapping[str, Value] | None,
    policy: Any,
    settings: Mapping[str, Value],
) -> tuple[
    tuple[str, str] | None,
    PathLike[str] | None,
    dict[str, list[str]],
    list[tuple[str, str, Callable[[int, int], object]]],
]:
    """The scenario's text or file, the settings that are given beside it, and policies that are written in Python."""
    given: dict[str, list[str]] = {}
    text: tuple[str, str] | None = None
    file: PathLike[str] | None = None
    own: list[tuple[str, str, Callable[[int, int], object]]] = []
    if isinstance(scenario, Mapping):
        within = dict(scenario)
        if policy is None:
            policy = cast(Any, within.pop("policy", None))
        given.update(_given(within))
    elif isinstance(scenario, PathLike):
        file = scenario
    elif scenario is not None:
        text = (scenario, "scenario")
    if isinstance(trace, Trace):
        given["trace"] = [_destage.path_text(trace.path)]
        given["format"] = [trace.format]
        if trace.lenient:
            given["lenient"] = ["true"]
    elif trace is not None:
        given["trace"] = [_destage.path_text(trace)]
    given.update(_given(settings))
    if policy is not None:
        given["policy"], own = _policies(policy)
    return text, file, given, own


def simulate(
    trace: Trace | str | PathLike[str] | None = None,
    *,
    scenario: str | PathLike[str] | Mapping[str, Value] | None = None,
    policy: str | type[Policy] | Sequence[str | type[Policy]] | None = None,
    latencies: bool | Sequence[str] = False,
    **settings: Value,
) -> Experiment:
    """Simulates policies x sizes over a trace, as `destage sim` does, and returns the results.

    trace: a trace or its file. `workload="exchange"` and the like take its place.
    scenario: settings as the text of a TOML file, as its path (a `Path`, not text), or as a mapping. What is given by name
        overrides it.
    policy: names of built-in policies with their parameters ("lb-clock:...", `destage.policies()`), and classes of your own
        that are derived from `destage.Policy`.
    latencies: keep what became of each request, or these columns of it; of a single run only. See `Experiment.latencies`.
    settings: whatever `destage.settings()` lists, such as `cache="1MiB..1GiB/8"`, `device="ssd"`, `array="raid5:5"`,
        `ssd={"preset": "pm9a3"}`, `limit=1_000_000`, `threads=2`. Sizes are bytes or have a unit, times have one.

    Raises `DestageError` with the command line's words, what a policy of yours raised, or KeyboardInterrupt upon Ctrl-C.
    """
    text, file, given, own = _asked(trace, scenario, policy, settings)
    columns = None if isinstance(latencies, bool) else list(latencies)
    json, log, objective = _destage.simulate(
        text, file, list(given.items()), own, latencies is True or columns is not None, columns
    )
    return Experiment(json, objective=objective, latencies=log)


def advise(
    trace: Trace | str | PathLike[str] | None = None,
    *,
    budget: str | int | None = None,
    nvram_budget: str | int | None = None,
    scenario: str | PathLike[str] | Mapping[str, Value] | None = None,
    policy: str | Sequence[str] | None = None,
    **settings: Value,
) -> Advice:
    """Looks for the policy and size for a trace, as `destage advise` does.

    trace: a trace or its file. `workload="exchange"` and the like take its place.
    budget: how large it may be, in data held ("64MiB") or as a share of the pages that take part ("10%").
    nvram_budget: how large a cache in the NVRAM before an array may be; with it these are candidates, too.
    scenario: as for `simulate`.
    policy: names of built-in policies, which are then the candidates beside no buffer at all.
    settings: as for `simulate`, without `cache`: such as `ssd={"preset": "980pro"}`, `array="raid5:5"`, `objective="p99"`.

    Raises `DestageError`, or KeyboardInterrupt upon Ctrl-C.
    """
    text, file, given, own = _asked(trace, scenario, policy, settings)
    if own:
        raise _destage.DestageError(f"policy '{own[0][0]}': only built-in policies are advised; compare it with simulate")
    budgets = [None if size is None else str(size) for size in (budget, nvram_budget)]
    advice, runs, objective = _destage.advise(text, file, list(given.items()), *budgets)
    return Advice(advice, Experiment(runs, objective=objective))


def mrc(
    trace: Trace | str | PathLike[str],
    *,
    sizes: Scalar | Sequence[Scalar] = "0.1%..100%/16",
    policy: str | Sequence[str] = "lru",
    rate: str = "1.56%",
    seed: int = 1,
    **settings: Value,
) -> MissRatioCurves:
    """Finds the hits of buffers of many sizes, as `destage trace mrc` does: miss-ratio curves, the footprint, and where LRU's bends.

    trace: a trace or its file.
    sizes: data held ("64MiB" or bytes), shares of the pages that take part ("10%"), ranges of either ("1MiB..1GiB/8"), or "auto".
    policy: LRU is exact at all sizes, from one pass over the trace; others are estimated from samples, with an interval of 95 %.
    rate: the least share of the pages in the samples.
    seed: which pages these are.
    settings: how the trace is read, and what decides about hits without a device: such as `limit`, `ops`, `page` or `warmup`.

    Raises `DestageError`, or KeyboardInterrupt upon Ctrl-C.
    """
    _, _, given, own = _asked(trace, None, policy, settings)
    if own:
        raise _destage.DestageError(f"policy '{own[0][0]}': only built-in policies have curves; give simulate several sizes")
    several = not isinstance(sizes, (str, PathLike)) and isinstance(sizes, Iterable)
    asked = [_text(size) for size in (sizes if several else [sizes])]  # type: ignore[union-attr]
    policies = given.pop("policy")
    return MissRatioCurves(json.loads(_destage.mrc(list(given.items()), asked, policies, rate, seed)))


def run_scenario(scenario: str, trace: str | PathLike[str] | None = None, *, threads: int | None = None) -> str:
    """Simulates a scenario, the text of a TOML file, over a trace, and returns the results as JSON.

    For worker processes: what goes in and what comes out is text.

    trace: in place of the scenario's own.
    threads: threads that simulate; all processors unless the scenario says otherwise. Results do not depend on it.
    """
    return simulate(trace, scenario=scenario, threads=threads).json()


def synth(path: str | PathLike[str], **settings: Value) -> Trace:
    """Makes up a trace into a file of the native format. The same settings give the same bytes on any machine.

    settings: whatever `destage.settings("synth")` lists, such as `length=100_000` (requests, or a time such as "60s"),
        `read=30` (percent), `footprint="zipf:1.1"`, `space="1GiB"`, `arrivals="poisson:1ms"`, `workload="exchange"`, `seed=2`.
    """
    _destage.synth(path, list(_given(settings)))
    return Trace(path)


#: Columns of a table of requests, and whether each has to be there.
_COLUMNS = {"time_ns": True, "op": True, "offset": True, "bytes": True, "volume": False, "latency_ns": False}


def _columns(frame: Any) -> dict[str, list[Any] | None]:
    """The columns of a table of requests as lists, without values as None."""
    names = [str(name) for name in getattr(frame, "columns", frame)]
    columns: dict[str, list[Any] | None] = {}
    for name, is_needed in _COLUMNS.items():
        if name not in names:
            if is_needed:
                raise _destage.DestageError(f"frame has no column '{name}', only {', '.join(names)}: expected {', '.join(_COLUMNS)}")
            columns[name] = None
            continue
        column = frame[name]
        values = column.tolist() if hasattr(column, "tolist") else column.to_list() if hasattr(column, "to_list") else list(column)
        columns[name] = [None if _is_missing(value) else value for value in values]
        if name != "op":
            columns[name] = [_whole(name, row, value) for row, value in enumerate(columns[name] or [])]
    return columns


def _is_missing(value: Any) -> bool:
    """Of what is missing pandas makes a NaN, which is not equal to itself, or an NA, of which nobody may ask that."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _whole(name: str, row: int, value: Any) -> int | None:
    if value is None and name == "latency_ns":
        return None
    try:
        whole = int(value)
        if whole == value and whole >= 0:
            return whole
    except (TypeError, ValueError, OverflowError):
        pass
    raise _destage.DestageError(f"frame['{name}'] is {value} in row {row + 1}: expected a whole number, not negative")


def write_trace(
    path: str | PathLike[str],
    frame: Any = None,
    *,
    time_ns: Sequence[int] | None = None,
    op: Sequence[str] | None = None,
    offset: Sequence[int] | None = None,
    bytes: Sequence[int] | None = None,
    volume: Sequence[int] | None = None,
    latency_ns: Sequence[int | None] | None = None,
    level: int | None = None,
) -> Trace:
    """Writes requests as a trace in the native format, from a table or from columns with as many values each.

    frame: a DataFrame of pandas or Polars, or a mapping, with the columns that follow, in place of them; others are passed over.
    time_ns: arrivals, ns after the beginning.
    op: "read", "write", "flush" or "discard".
    offset: first byte on the volume, B.
    bytes: how many, B.
    volume: numbers of volumes from 0; all 0 unless they are given.
    latency_ns: ns from arrival to completion, None where it is not known.
    level: compression, 1 to 22.
    """
    given: dict[str, Any] = {
        "time_ns": time_ns,
        "op": op,
        "offset": offset,
        "bytes": bytes,
        "volume": volume,
        "latency_ns": latency_ns,
    }
    if frame is not None:
        twice = [name for name, values in given.items() if values is not None]
        if twice:
            raise _destage.DestageError(f"{twice[0]} is given beside frame: give a frame or columns")
        given = _columns(frame)
    missing = [name for name, is_needed in _COLUMNS.items() if is_needed and given[name] is None]
    if missing:
        raise _destage.DestageError(f"{missing[0]} is missing: give a frame, or {', '.join(name for name in _COLUMNS if _COLUMNS[name])}")
    times, kinds, offsets, sizes, volumes, latencies = (given[name] for name in _COLUMNS)
    _destage.write_trace(path, times, kinds, offsets, sizes, volumes, latencies, level)
    return Trace(Path(path))
