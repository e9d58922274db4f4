"""Traces."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from . import _destage
from ._results import Record


class Trace:
    """A block trace in a file of any format that destage reads, compressed or not.

    path: the file. A recording of blktrace is named without the ending of its files.
    format: its format where the content does not decide, as `--format` takes it; see `destage.formats()`.
    lenient: leave out lines that cannot be read, and count them.

    It is opened now, so that what is wrong with its beginning is raised now, and read whenever it is used; it is never held
    in memory. Libraries that know Arrow's PyCapsule interface read it as a stream of columns: `polars.DataFrame(trace)`,
    `pyarrow.RecordBatchReader.from_stream(trace)`. These are `time_ns` (ns after the trace's first request), `op` ("read",
    "write", "flush", "discard"), `fua`, `volume` (its number), `offset` (B), `bytes` (B) and `latency_ns` (ns from arrival
    to completion; null where the trace does not say).
    """

    def __init__(self, path: str | PathLike[str], *, format: str | None = None, lenient: bool = False) -> None:
        self._trace = _destage.Trace(path, format, lenient)

    @property
    def path(self) -> Path:
        """The file."""
        return self._trace.path

    @property
    def format(self) -> str:
        """Its format, given or found."""
        return self._trace.format

    @property
    def lenient(self) -> bool:
        """Whether lines that cannot be read are left out."""
        return self._trace.lenient

    def stat(self, *, page: str = "4KiB", locality: Literal["writes", "reads", "both"] | None = None) -> Record:
        """What the trace is like: the fields of `destage trace stat --json` (`destage schema --stat` has their units).

        page: size of the pages that are counted.
        locality: also reuse distances, and how blocks of 64 pages are filled, of these requests.
        """
        return Record(json.loads(self._trace._stat(page, locality)))

    def write(self, path: str | PathLike[str], *, format: str = "native", level: int | None = None) -> int:
        """Writes the trace to another file, which takes its name once it is complete; returns the number of requests.

        format: native, or one of those that `destage.formats()` says are written, with options as `trace convert --to`.
        level: compression of the native format, 1 to 22.
        """
        return self._trace.write(path, format, level)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._trace.__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> Any:
        return _again, (self.path, self.format, self.lenient)

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r}, format={self.format!r})"


def _again(path: Path, format: str, lenient: bool) -> Trace:
    return Trace(path, format=format, lenient=lenient)
