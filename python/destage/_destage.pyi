"""The part that is written in Rust (crates/python). What is not in `destage` itself is not for use."""

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

VERSION: str

class DestageError(Exception):
    """What went wrong, in the words of the command line."""

class Table:
    """A table in Arrow's form, which Polars, pandas, pyarrow and DuckDB take without a copy."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    @property
    def num_rows(self) -> int:
        """The number of rows."""
    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
    @property
    def units(self) -> list[tuple[str, str]]:
        """Columns with their units, where they are known: "ns", "B", "1" for counts, "-" for text."""
    def __len__(self) -> int: ...
    def to_polars(self) -> Any:
        """As a `polars.DataFrame`, which shares the memory."""
    def to_pyarrow(self) -> Any:
        """As a `pyarrow.Table`, which shares the memory."""
    def to_pandas(self) -> Any:
        """As a `pandas.DataFrame` of Arrow's types, which shares the memory; needs pyarrow too."""

class Trace:
    def __init__(self, path: str | PathLike[str], format: str | None = None, lenient: bool = False) -> None: ...
    @property
    def path(self) -> Path: ...
    @property
    def format(self) -> str: ...
    @property
    def lenient(self) -> bool: ...
    def _stat(self, page: str, locality: str | None = None) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any: ...
    def write(self, path: str | PathLike[str], format: str | None = None, level: int | None = None) -> int: ...

def formats() -> list[tuple[str, str, bool]]: ...
def page(json: bytes, objective: str | None = None) -> str: ...
def path_text(path: str | PathLike[str]) -> str: ...
def policies() -> list[tuple[str, str, str]]: ...
def settings(of_synth: bool) -> list[tuple[str, str, str, str]]: ...
def simulate(
    scenario: tuple[str, str | PathLike[str]] | None,
    scenario_file: str | PathLike[str] | None,
    given: Sequence[tuple[str, Sequence[str]]],
    policies: Sequence[tuple[str, str, Callable[[int, int], object]]],
    latencies: bool,
    columns: Sequence[str] | None,
) -> tuple[bytes, Table | None, str | None]: ...
def synth(path: str | PathLike[str], given: Sequence[tuple[str, Sequence[str]]]) -> int: ...
def tables(json: bytes, objective: str | None = None) -> list[tuple[str, Table]]: ...
def workloads() -> list[tuple[str, str]]: ...
def write_trace(
    path: str | PathLike[str],
    time_ns: Sequence[int],
    op: Sequence[str],
    offset: Sequence[int],
    size: Sequence[int],
    volume: Sequence[int] | None,
    latency_ns: Sequence[int | None] | None,
    level: int | None,
) -> int: ...
