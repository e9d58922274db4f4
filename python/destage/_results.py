"""Results of simulations."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from . import _destage, _notebook


class Record(Mapping[str, Any]):
    """Fields of a result, as attributes and as a mapping. `destage schema` tells what each means, and its unit."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        object.__setattr__(self, "_fields", fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_fields":
            raise AttributeError(name)
        try:
            return _shown(self._fields[name])
        except KeyError:
            raise AttributeError(f"there is no field '{name}', only {', '.join(self._fields)}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("results are what was simulated, and cannot be changed")

    def __getitem__(self, name: str) -> Any:
        return _shown(self._fields[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._fields]

    def __reduce__(self) -> Any:
        return type(self), (self._fields,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON has them: dicts, lists, numbers, text."""
        return json.loads(json.dumps(self._fields))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        scalars = ", ".join(f"{name}={value!r}" for name, value in self._fields.items() if not isinstance(value, (dict, list)))
        return f"{type(self).__name__}({scalars})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th><td>{html.escape(_brief(value))}</td></tr>"
            for name, value in self._fields.items()
        )
        return f"<table>{rows}</table>"


def _shown(value: Any) -> Any:
    """A value of JSON as an object with attributes."""
    if isinstance(value, dict):
        return Record(value)
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value


def _brief(value: Any) -> str:
    """A value in a table."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items() if not isinstance(inner, (dict, list)))
    if isinstance(value, list):
        return f"{len(value)} entries" if any(isinstance(item, dict) for item in value) else ", ".join(map(str, value))
    return "" if value is None else str(value)


def _devices(fields: dict[str, Any]) -> str:
    """What a run was simulated on, an SSD by its preset and model."""
    settings = {setting["name"]: setting["value"] for setting in fields["settings"]}

    def named(kind: str | None) -> str:
        if kind != "ssd":
            return kind or "no device"
        return f"SSD {settings.get('ssd.preset')} ({settings.get('ssd.model', 'classic')} model)"

    device, cache, array = fields.get("device"), fields.get("cache_device"), fields.get("array")
    if not array:
        return "no device" if device == "none" else named(device)
    cached = f", cache on {named(cache)}" if cache and cache != device else ""
    return f"{array['level']} over {named(device)}{cached}"


class Run(Record):
    """The result of one policy with one size: the fields of `destage sim --json`.

    The most asked for: `policy`, `cache_bytes` (B), `hit_ratio` (1), `hits` and `accesses` (pages), `response.all.mean` and
    `.p99` (ns), `ssd.write_amplification` (1), `erases` (1), `findings`. What does not apply is None.
    """

    __slots__ = ()

    @property
    def findings(self) -> list[Record]:
        """What makes the run say less than it seems to."""
        return [Record(finding) for finding in self._fields["findings"]]

    def __repr__(self) -> str:
        return f"<Run: {self._told()}, {_devices(self._fields)}>"

    def _told(self) -> str:
        """The policy, its size and figures, in words."""
        fields = self._fields
        size = fields["cache_bytes"]
        figures = [f"{fields['policy']}", "no cache" if size is None else f"{size} B"]
        if fields["hit_ratio"] is not None:
            figures.append(f"hit ratio {fields['hit_ratio']:.4f}")
        response = (fields.get("response") or {}).get("all")
        if response:
            figures.append(f"mean {response['mean'] / 1e6:.3f} ms, p99 {response['p99'] / 1e6:.3f} ms")
        amplification = (fields.get("ssd") or {}).get("write_amplification")
        if amplification is not None:
            figures.append(f"write amplification {amplification:.3f}")
        return ", ".join(figures)


@dataclass(frozen=True)
class Finding:
    """What makes a run say less than it seems to (docs/findings.md)."""

    run: int
    """Which of the runs, from 0."""
    kind: str
    """Its kind, a word."""
    severity: str
    """One of "void", "weak" and "note"."""
    message: str
    """What was found."""
    mend: str | None
    """A setting that mends it, if there is one."""


class Experiment:
    """What a simulation brought. It can be pickled; latencies are then left out."""

    def __init__(self, results: bytes | str, *, objective: str | None = None, latencies: _destage.Table | None = None) -> None:
        """Results as `destage sim --json` writes them, such as the content of a file.

        objective: what *best* means in the report: mean, p99, p99.9, write-amplification, erases or hits.
        """
        self._json = results.encode() if isinstance(results, str) else bytes(results)
        self._objective = objective
        self._latencies = latencies
        self._runs: list[Run] | None = None

    @property
    def runs(self) -> list[Run]:
        """The runs: one per policy and size, sizes in the inner loop."""
        if self._runs is None:
            self._runs = [Run(run) for run in json.loads(self._json)]
        return self._runs

    @property
    def findings(self) -> list[Finding]:
        """What makes runs say less than they seem to."""
        return [
            Finding(i, finding.kind, finding.severity, finding.message, finding.mend)
            for i, run in enumerate(self.runs)
            for finding in run.findings
        ]

    @property
    def latencies(self) -> _destage.Table | None:
        """What became of each measured request, if that was asked for: a row each, in order; of an array in the order of answers.

        `request` (its number in the trace, from 1), `arrival_ns` (ns), `volume`, `offset` (B), `bytes` (B), `kind`,
        `response_ns` (ns; null without a timed device, where it failed, and inside an SSD of flushes and discards), `pages`,
        `hit_pages` (those of them that were in the buffer; null before an array) and `gc_delayed` (whether it waited for a
        collection).
        """
        return self._latencies

    def table(self, name: Literal["runs", "series", "debt", "cdf", "wear"] = "runs") -> _destage.Table:
        """A table of the report (docs/report.md).

        runs: a row per run.
        series: a row per run and span of time (ns).
        debt: the same of the parity debt.
        cdf: a row per run and class of response times (ns).
        wear: a row per run, device and class of erases.
        """
        tables = dict(_destage.tables(self._json, self._objective))
        if name not in tables:
            raise _destage.DestageError(f"there is no table '{name}', only {', '.join(tables)}")
        return tables[name]

    def json(self) -> str:
        """The results, byte by byte what `destage sim --json` writes."""
        return self._json.decode()

    def html(self) -> str:
        """The report's page: one HTML file that needs no network."""
        return _destage.page(self._json, self._objective)

    def report(self, path: str | PathLike[str]) -> Path:
        """Writes the report's page to a file, and returns its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __getitem__(self, run: int) -> Run:
        return self.runs[run]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Experiment) and (self._json, self._objective) == (other._json, other._objective)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return _again, (self._json, self._objective)

    def __repr__(self) -> str:
        devices = dict.fromkeys(_devices(run._fields) for run in self.runs)
        lines = [f"<Experiment: {'; '.join(devices)}: {len(self.runs)} runs over {self.runs[0].input.trace}>"]
        lines += [f"  <Run: {run._told()}>" for run in self.runs[:20]]
        if len(self.runs) > 20:
            lines.append(f"  and {len(self.runs) - 20} more")
        void = sum(finding.severity == "void" for finding in self.findings)
        if self.findings:
            lines.append(f"  {len(self.findings)} findings, {void} of which make a run void: see .findings")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _notebook.report(self.html())


def _again(results: bytes, objective: str | None) -> Experiment:
    return Experiment(results, objective=objective)


class MissRatioCurves(Record):
    """Hits by policy and size: the fields of `destage trace mrc --json` (`destage schema --mrc`).

    The most asked for: `policies` (with `policy` and `points` of `cache_bytes`, `hit_ratio` and `half_width`), `footprint_bytes`,
    `knee_bytes` (where LRU's curve bends), `full_bytes` (where it ends).
    """

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each policy and size, for a table: `polars.DataFrame(curves.rows())`.

        `policy`, `cache_bytes` (B), `hit_ratio` and `miss_ratio` (1; None where nothing is asked for), and `half_width` (1): that
        of the interval of 95 % of an estimate, 0 where the figure is exact.
        """
        return [
            {
                "policy": curve["policy"],
                "cache_bytes": point["cache_bytes"],
                "hit_ratio": point["hit_ratio"],
                "miss_ratio": None if point["hit_ratio"] is None else 1.0 - point["hit_ratio"],
                "half_width": point["half_width"],
            }
            for curve in self._fields["policies"]
            for point in curve["points"]
        ]


class Advice(Record):
    """Which policy, and how large: the fields of `destage advise --json` (`destage schema --advise`).

    The most asked for: `best.policy`, `best.cache_bytes` (B; None where no buffer is advised), `best.value`, `objective`, `unit`,
    `bare.value` (without any), `runner_up`, `confidence`, `device`, `findings` and `call`.
    """

    __slots__ = ("experiment",)

    experiment: Experiment
    """Every run over the whole trace, which the advice rests on."""

    def __init__(self, advice: str, experiment: Experiment) -> None:
        super().__init__(json.loads(advice))
        object.__setattr__(self, "experiment", experiment)

    def __reduce__(self) -> Any:
        return type(self), (json.dumps(self._fields), self.experiment)

    def __repr__(self) -> str:
        best = self._fields["best"]
        size = "no size" if best["cache_bytes"] is None else f"{best['cache_bytes']} B"
        value = f"{self._fields['objective']} {best['value']} {self._fields['unit']}"
        return f"<Advice: {best['policy']}, {size}, {value}, confidence {self._fields['confidence']}, {self._fields['device']}>"
