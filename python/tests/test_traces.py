"""Traces are read, written, made up and described."""

import json
import os
import pathlib
import pickle
import shutil

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import destage


def test_a_trace_is_described_as_the_command_line_does(cli, trace):
    opened = destage.Trace(trace)
    told = json.loads(cli("trace", "stat", trace, "--json", "--locality=both").stdout)[0]
    assert opened.stat(locality="both").to_dict() == told
    assert opened.stat().requests == 119_807 and opened.format == "native"
    assert pickle.loads(pickle.dumps(opened)).stat() == opened.stat()
    with pytest.raises(destage.DestageError, match="--page much: a number of bytes"):
        opened.stat(page="much")


def test_a_trace_is_read_as_columns(cli, trace):
    columns = pl.DataFrame(destage.Trace(trace))
    assert columns.height == 119_807
    lines = cli("trace", "head", trace, "-n", 119_807).stdout.splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert columns["time_ns"].to_list() == [int(row[0]) for row in rows]
    assert columns["op"].to_list() == [row[1] for row in rows]
    assert columns["offset"].to_list() == [int(row[4]) for row in rows]
    assert columns["bytes"].to_list() == [int(row[5]) for row in rows]
    reader = pa.RecordBatchReader.from_stream(destage.Trace(trace))
    assert max(batch.num_rows for batch in reader) <= 1 << 14, "it is not held as a whole"


def test_a_broken_trace_raises_where_it_is_broken(trace, tmp_path):
    broken = tmp_path / "broken.destage"
    broken.write_bytes(trace.read_bytes()[:-1000])
    with pytest.raises(Exception, match="broken.destage"):
        pl.DataFrame(destage.Trace(broken))
    with pytest.raises(destage.DestageError, match="broken.destage"):
        destage.simulate(broken, policy="lru", cache="1MiB")


def test_a_trace_is_written_in_other_formats(cli, refused, trace, tmp_path):
    opened = destage.Trace(trace)
    cli("trace", "convert", trace, tmp_path / "cli.destage")
    assert opened.write(tmp_path / "copy.destage") == 119_807
    assert (tmp_path / "copy.destage").read_bytes() == (tmp_path / "cli.destage").read_bytes()
    cli("trace", "convert", trace, tmp_path / "cli.trace", "--to=mqsim")
    assert opened.write(tmp_path / "copy.trace", format="mqsim") == 119_807
    assert (tmp_path / "copy.trace").read_bytes() == (tmp_path / "cli.trace").read_bytes()
    flushing = destage.synth(tmp_path / "flushing.destage", length=100, flush_every=10)
    with pytest.raises(destage.DestageError) as raised:
        flushing.write(tmp_path / "no.trace", format="mqsim")
    assert str(raised.value) == refused("trace", "convert", flushing.path, tmp_path / "no.trace", "--to=mqsim")
    assert not (tmp_path / "no.trace").exists()
    with pytest.raises(destage.DestageError, match="--level: only the native format"):
        opened.write(tmp_path / "no.trace", format="mqsim", level=3)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_traces_are_made_up_with_the_bytes_of_the_command_line(cli, tmp_path):
    cli("trace", "synth", tmp_path / "cli.destage", "--length=2000", "--read=30", "--footprint=zipf:1.1", "--flush-every=50")
    made = destage.synth(tmp_path / "py.destage", length=2_000, read=30, footprint="zipf:1.1", flush_every=50)
    assert (tmp_path / "py.destage").read_bytes() == (tmp_path / "cli.destage").read_bytes()
    assert made.stat().requests > 2_000 - 1
    with pytest.raises(destage.DestageError, match="there is no key 'lenght'; did you mean 'length'?"):
        destage.synth(tmp_path / "no.destage", lenght=1)


def test_columns_become_a_trace(trace, tmp_path):
    head = pl.DataFrame(destage.Trace(trace)).head(40_000)
    latencies = [None if i % 3 else 1_000 + i for i in range(head.height)]
    written = destage.write_trace(
        tmp_path / "own.destage",
        time_ns=head["time_ns"].to_numpy(),
        op=head["op"].to_list(),
        offset=head["offset"].to_numpy(),
        bytes=head["bytes"],
        volume=head["volume"].to_list(),
        latency_ns=latencies,
    )
    again = pl.DataFrame(written)
    assert again.drop("latency_ns", "fua").equals(head.drop("latency_ns", "fua"))
    assert again["latency_ns"].to_list() == latencies
    with pytest.raises(destage.DestageError, match="op of request 2 is 'trim': one of read, write, flush, discard"):
        destage.write_trace(tmp_path / "no", time_ns=[0, 1], op=["read", "trim"], offset=[0, 0], bytes=[1, 1])
    with pytest.raises(destage.DestageError, match="time_ns has 2 values and bytes has 1: give as many of each"):
        destage.write_trace(tmp_path / "no", time_ns=[0, 1], op=["read", "read"], offset=[0, 0], bytes=[1])
    # A table has the columns itself.
    for frame in (head.with_columns(latency_ns=pl.Series(latencies)), head.with_columns(latency_ns=pl.Series(latencies)).to_pandas()):
        again = pl.DataFrame(destage.write_trace(tmp_path / "frame.destage", frame))
        assert again.drop("latency_ns", "fua").equals(head.drop("latency_ns", "fua"))
        assert again["latency_ns"].to_list() == latencies
    with pytest.raises(destage.DestageError, match="frame has no column 'offset', only time_ns, op, volume, bytes"):
        destage.write_trace(tmp_path / "no", head.select("time_ns", "op", "volume", "bytes"))
    with pytest.raises(destage.DestageError, match=r"frame\['bytes'\] is -1 in row 2: expected a whole number"):
        destage.write_trace(tmp_path / "no", {"time_ns": [0, 1], "op": ["read"] * 2, "offset": [0, 0], "bytes": [1, -1]})
    # Columns of pandas that know what is missing, and values that are no numbers.
    table = head.to_pandas().assign(latency_ns=pd.array([None, *range(1, len(head))], dtype="Int64"))
    again = pl.DataFrame(destage.write_trace(tmp_path / "nullable.destage", table))
    assert again["latency_ns"].to_list() == [None, *range(1, len(head))]
    for wrong in ("x", float("inf"), pd.Timestamp(0), 0.5):
        with pytest.raises(destage.DestageError, match=r"frame\['bytes'\] is .* in row 1: expected a whole number"):
            destage.write_trace(tmp_path / "no", {"time_ns": [0], "op": ["read"], "offset": [0], "bytes": [wrong]})
    with pytest.raises(destage.DestageError, match="op is given beside frame"):
        destage.write_trace(tmp_path / "no", head, op=["read"])
    with pytest.raises(destage.DestageError, match="time_ns is missing: give a frame"):
        destage.write_trace(tmp_path / "no", op=["read"])


def test_a_file_may_have_any_name(trace, tmp_path):
    for name in (b"caf\xe9.destage", rb"caf\xe9.destage"):
        path = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
        shutil.copy(trace, path)
        opened = destage.Trace(path)
        for given in (path, pathlib.Path(path), opened):
            assert destage.simulate(given, policy="lru", cache="1MiB", limit=1000)[0].input.trace_requests == 1000
        assert opened.write(path + ".2", format="msr") == opened.stat().requests
        os.remove(path)


def test_what_there_is_is_listed():
    assert ("lru", "least recently used page", "ssd") in destage.policies()
    assert any(place == "host" for _, _, place in destage.policies())
    assert {name for name, _, written in destage.formats() if written} >= {"native", "ssdsim"}
    assert "exchange" in dict(destage.workloads())
