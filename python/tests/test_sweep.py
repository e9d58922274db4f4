"""Sweeps, here and on a real Dask scheduler with two worker processes, one of which is killed."""

import contextlib
import functools
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import destage
from destage import _destage
from destage._progress import Progress

from conftest import wait_for

GRID = {"policy": ["lru", "fab", "clock"], "cache": ["1MiB..8MiB/4"], "ssd": {"queue-depth": [8, 32], "reserve": ["10%", "20%"]}}
RUNS = 48


def scenario(limit: int = 4_000) -> dict:
    return {"device": "ssd", "start": "full", "limit": limit}


def parts(out: Path) -> int:
    return len(list(out.glob("parts/part-*.parquet")))


def test_a_sweep_is_a_table_of_all_runs(trace, tmp_path):
    told = destage.sweep(GRID, trace, scenario=scenario(), out=tmp_path / "out", progress=False)
    assert (len(told), told.runs, told.known, told.simulated, told.failed) == (RUNS, RUNS, 0, RUNS, [])
    frame = told.table().to_polars()
    assert frame.height == RUNS
    assert frame.columns[:4] == ["key", "trace", "grid.ssd.queue-depth", "grid.ssd.reserve"]
    assert frame["grid.ssd.queue-depth"].to_list() == [8] * 24 + [32] * 24
    assert dict(told.table().units)["response.all.mean"] == "ns"
    # Each row is what one simulation brings.
    one = destage.simulate(trace, scenario=scenario(), policy="fab", cache=2 << 20, ssd={"queue-depth": 32, "reserve": "20%"})[0]
    of_fab = [("policy", "fab"), ("cache_bytes", 2 << 20), ("grid.ssd.queue-depth", 32), ("grid.ssd.reserve", "20%")]
    [row] = [row for row in frame.to_dicts() if all(row[key] == value for key, value in of_fab)]
    assert row["response.all.mean"] == one.response.all.mean and row["erases"] == one.erases and row["hits"] == one.hits
    best = told.best[0]
    assert best.objective == "mean response time"
    assert min(frame["response.all.mean"]) == frame.filter(frame["policy"] == best.policy)["response.all.mean"].min()
    assert "<table>" in told._repr_html_() and "48 rows" in repr(told)
    again = destage.sweep([GRID, GRID], [trace], scenario=scenario(), out=tmp_path / "out")
    assert (again.known, again.simulated) == (RUNS, 0)
    with pytest.raises(destage.DestageError, match="there is no key 'polcy'; did you mean 'policy'"):
        destage.sweep({"polcy": ["lru"]}, trace, out=tmp_path / "other")
    with pytest.raises(destage.DestageError, match="leave one of them out"):
        destage.sweep(GRID, trace, scenario='trace = "x"\n', out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_worker_that_dies_costs_only_its_runs(cluster, trace, tmp_path):
    far = scenario(60_000)
    whole = destage.sweep(GRID, trace, scenario=far, out=tmp_path / "here")
    killed = []

    def kill() -> None:
        wait_for(lambda: parts(tmp_path / "there") >= 2)
        cluster.workers[0].send_signal(signal.SIGKILL)
        killed.append(parts(tmp_path / "there"))

    killer = threading.Thread(target=kill)
    killer.start()
    told = destage.sweep(GRID, trace, scenario=far, out=tmp_path / "there", on=cluster.address)
    killer.join()
    assert told.simulated == RUNS and told.failed == []
    assert killed and killed[0] < parts(tmp_path / "there"), "it was killed in the middle"
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert told.file.read_bytes() == whole.file.read_bytes()


def test_a_sweep_that_is_killed_goes_on_elsewhere(cluster, cli, trace, tmp_path):
    far = scenario(60_000)
    grid = tmp_path / "grid.toml"
    pairs = "".join(f"{key} = {json.dumps(value)}\n" for key, value in far.items())
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in GRID.items() if key != "ssd")
    ssd = "".join(f"ssd.{key} = {json.dumps(value)}\n" for key, value in GRID["ssd"].items())
    grid.write_text(f"traces = [{json.dumps(str(trace))}]\n[scenario]\n{pairs}[grid]\n{keys}{ssd}")
    environment = os.environ | {"DESTAGE_PYTHON": sys.executable}
    command = [os.environ["DESTAGE"], "sweep", grid, "--out", tmp_path / "out", "--on", cluster.address, "--json"]
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, start_new_session=True)
    wait_for(lambda: parts(tmp_path / "out") >= 2)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    before = parts(tmp_path / "out")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["known"] > 0 and told["known"] + told["simulated"] == RUNS and before > 0
    # The same as here, and the same as the command line by itself: nothing is left for it.
    here = destage.sweep(grid, out=tmp_path / "here")
    assert Path(told["file"]).read_bytes() == here.file.read_bytes()
    done = cli("sweep", grid, "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["simulated"] == 0, done.stderr


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A web server, and what was asked of it."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            if self.command == "GET":
                asked.append(self.path)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_traces_at_urls_are_fetched_once_by_each_machine(cluster, trace, tmp_path, monkeypatch):
    monkeypatch.setenv("DESTAGE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "own.destage").write_bytes(trace.read_bytes())
    url = (tmp_path / "store" / "own.destage").as_uri()
    grid = {"policy": ["lru", "clock"], "cache": ["1MiB", "2MiB"], "speed": [1, 2, 4]}
    there = destage.sweep(grid, url, scenario=scenario(), out=tmp_path / "there", on=cluster.address)
    assert set(there.table().to_polars()["trace"]) == {url} and len(there) == 12
    for cache in (tmp_path / "cache", tmp_path / "cluster" / "cache"):
        assert len([file for file in cache.rglob("own.destage")]) == 1
        assert not list(cache.glob(".part-*"))
    here = destage.sweep(grid, url, scenario=scenario(), out=tmp_path / "here")
    assert here.file.read_bytes() == there.file.read_bytes()
    # What it holds now is another trace.
    (tmp_path / "store" / "own.destage").write_bytes(b"0,8,4096,W,0.5\n0,16,4096,R,1.5\n")
    with pytest.raises(destage.DestageError, match="holds something else than when the sweep was planned"):
        from destage._fetched import fetched

        fetched(url, "0" * 64)
    changed = destage.sweep({"policy": "lru", "cache": "1MiB"}, url, scenario={"format": "spc"}, out=tmp_path / "changed")
    assert changed.table().to_polars()["input.trace_requests"].to_list() == [2]
    with pytest.raises(destage.DestageError, match="nothing.destage: cannot be fetched"):
        destage.sweep(grid, url.replace("own", "nothing"), out=tmp_path / "nothing")


def test_what_is_wrong_with_a_cluster_is_told(cluster, trace, tmp_path):
    hidden = tmp_path / "hidden.destage"
    hidden.write_bytes(trace.read_bytes())
    plan = _destage.SweepPlan(
        f"traces = [{json.dumps(str(hidden))}]\n[scenario]\nlimit = 1000\n[grid]\npolicy = 'lru'\n", "sweep", tmp_path / "out", []
    )
    _, runs, text = plan.next(1)
    assert runs == 4
    with pytest.raises(destage.DestageError, match="other sources"):
        _destage.sweep_run(text.replace(_destage.PROGRAM, "0" * 64))
    rows, part, failed = _destage.sweep_run(text)
    assert (rows, failed) == (4, "[]") and part[:4] == b"PAR1"
    # A worker does not see what is on this machine alone.
    hidden.rename(tmp_path / "moved.destage")
    import distributed

    from destage._cluster import work

    with distributed.Client(cluster.address, set_as_default=False) as client:
        with pytest.raises(destage.DestageError, match="^worker tcp://127.0.0.1:[0-9]*: .*hidden.destage: cannot be read"):
            client.submit(work, text, pure=False).result(timeout=60)
    with pytest.raises(destage.DestageError, match="'threads' has no meaning with 'on'"):
        destage.sweep(GRID, trace, out=tmp_path / "other", on=cluster.address, threads=2)


def test_progress_tells_the_time_to_go():
    shown = Progress((2_500, 500, 500), False)
    assert shown.words(1) == "500 of 2,500 runs (500 known), time left unknown"
    shown.reach(1_500, 2_500)
    assert shown.words(10) == "1,500 of 2,500 runs (500 known), about 10 s left"
    assert shown.words(600) == "1,500 of 2,500 runs (500 known), about 10 min left"
