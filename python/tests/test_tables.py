"""Tables reach other libraries without a copy."""

import csv
import json

import polars as pl
import pyarrow as pa
import pytest

import destage

ROWS = 10_000_000


def addresses(column: pa.ChunkedArray) -> list[list[int | None]]:
    """Where the buffers of a column's chunks are."""
    return [[buffer and buffer.address for buffer in chunk.buffers()] for chunk in column.chunks]


def test_ten_million_latencies_are_not_copied(tmp_path):
    """Polars and pandas have the memory that the simulation wrote."""
    made = destage.synth(tmp_path / "t.destage", length=ROWS // 100, sizes="4KiB", space="64MiB")
    wanted = ["arrival_ns", "hit_pages"]
    table = destage.simulate(made, policy="lru", cache="4MiB", repeat=100, latencies=wanted).latencies
    assert table is not None and len(table) == ROWS and table.column_names == wanted
    own = pa.table(table)
    assert own.num_rows == ROWS and sum(own["hit_pages"].to_numpy()) > 0
    frame = pl.DataFrame(table)
    assert frame.height == ROWS
    for name in wanted:
        # What Polars shows of its own buffers: it gives them away without a copy, too.
        in_polars = [chunk.to_arrow().buffers()[1].address for chunk in frame[name].get_chunks()]
        assert in_polars == [buffers[1] for buffers in addresses(own[name])] and len(in_polars) > 1
    in_pandas = pa.Table.from_pandas(table.to_pandas(), preserve_index=False)
    assert addresses(in_pandas["arrival_ns"]) == addresses(own["arrival_ns"])


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "lru", "cache": "1MiB", "device": "ssd", "flush": "drain"},
        {"array": "raid5:4", "policy": "kdd", "cache": "1MiB", "host": "closed:8"},
    ],
)
def test_latencies_are_the_log_of_the_command_line(cli, trace, tmp_path, settings):
    log = tmp_path / "log.csv"
    flags = [f"--{name}={value}" for name, value in settings.items()]
    cli("sim", trace, *flags, "--limit=3000", "--warmup=100", f"--latency-log={log}")
    with log.open() as lines:
        rows = [{name: value for name, value in row.items() if name not in ("policy", "cache_bytes")} for row in csv.DictReader(lines)]
    table = destage.simulate(trace, limit=3_000, warmup=100, latencies=True, **settings).latencies
    assert table is not None
    shown = {True: "1", False: "0", None: ""}
    told = [
        {name: shown.get(value, str(value)) if isinstance(value, bool) or value is None else str(value) for name, value in row.items()}
        for row in table.to_polars().iter_rows(named=True)
    ]
    assert told == rows and len(rows) == 2_900
    assert dict(table.units)["response_ns"] == "ns"


def test_tables_are_those_of_the_report(cli, trace, tmp_path):
    cli("sim", trace, "--policy=lru,fab", "--cache=1MiB", "--device=ssd", "--limit=3000", f"--report={tmp_path / 'r'}")
    result = destage.simulate(trace, policy=["lru", "fab"], cache="1MiB", device="ssd", limit=3_000)
    for name in ["runs", "series", "cdf", "wear"]:
        told = pl.read_parquet(tmp_path / "r" / f"{name}.parquet")
        table = result.table(name).to_polars()
        assert table.columns == told.columns and table.height == told.height
        for column in told.columns:
            assert table[column].to_list() == told[column].to_list(), (name, column)
    assert json.loads(result.json())[0]["hits"] == result.table().to_pyarrow()["hits"][0].as_py()
