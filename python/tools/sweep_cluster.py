"""A sweep of 2,000 runs on a real Dask scheduler: `python -P python/tools/sweep_cluster.py target/release/destage [REQUESTS]`.

Here on one thread, on one worker, and on two, one of which is killed in the middle, before the client is killed and called
again: the rows have to be the same bytes. Prints how long each took, by the clock and in processor time, how well two workers
share the work, and what a run costs beside its simulation.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import destage

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from conftest import Cluster, wait_for  # noqa: E402
from test_sweep import parts  # noqa: E402

TRACE = Path(__file__).parents[2] / "traces" / "own.oltp-pgbench-ext4.destage"
POLICIES = ["lru", "clock", "fab", "bplru", "lb-clock"]
GRID = {
    "policy": POLICIES,
    "cache": ["1MiB..32MiB/10"],
    "ssd": {"queue-depth": [1, 2, 4, 8, 16], "reserve": ["10%", "15%", "20%", "30%"]},
    "speed": [1, 2],
}
RUNS = 2_000
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time(processes: list[subprocess.Popen]) -> float:
    """Processor time of these processes and this one, in s."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    total = own.ru_utime + own.ru_stime
    for process in processes:
        if process.poll() is None:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def timed(name: str, call, processes: list[subprocess.Popen]) -> tuple[float, float]:
    began, used = time.perf_counter(), processor_time(processes)
    call()
    took = time.perf_counter() - began, processor_time(processes) - used
    print(f"{name}: {took[0]:.1f} s, {took[1]:.1f} s of processors", flush=True)
    return took


def simulate(scenario: dict) -> None:
    """The same runs without a sweep: a call for each point of the grid."""
    for depth in GRID["ssd"]["queue-depth"]:
        for reserve in GRID["ssd"]["reserve"]:
            for speed in GRID["speed"]:
                ssd = {"queue-depth": depth, "reserve": reserve}
                destage.simulate(TRACE, scenario=scenario, policy=POLICIES, cache=GRID["cache"], ssd=ssd, speed=speed, threads=1)


def main(program: str, requests: int = 20_000) -> None:
    scenario = {"device": "ssd", "start": "full", "limit": requests}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweeps: dict[str, destage.Sweep] = {}

        def sweep(out: str, **given: object) -> None:
            sweeps[out] = destage.sweep(GRID, TRACE, scenario=scenario, out=folder / out, **given)
            assert (sweeps[out].runs, sweeps[out].failed) == (RUNS, []), sweeps[out]

        print(f"{RUNS} runs over {requests} requests, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
        bare = timed("simulations alone, one thread", lambda: simulate(scenario), [])
        timed("a sweep here, one thread", lambda: sweep("here", threads=1), [])
        times = {}
        for workers in (1, 2):
            (folder / f"cluster-{workers}").mkdir()
            cluster = Cluster(folder / f"cluster-{workers}", workers)
            try:
                time.sleep(3)
                # Workers have what they import, and the trace.
                destage.sweep({"policy": POLICIES}, TRACE, scenario=scenario, out=folder / f"warm-{workers}", on=cluster.address)
                call = lambda: sweep(f"on-{workers}", on=cluster.address)  # noqa: E731
                times[workers] = timed(f"on {workers} worker{'s'[:workers - 1]}", call, cluster.processes)
            finally:
                cluster.end()
        one, two = times[1], times[2]
        print(f"efficiency from one to two workers: {one[0] / two[0] / 2:.3f} by the clock, {one[1] / two[1]:.3f} in processor time")
        overhead = [1000 * (one[i] - bare[i]) / RUNS for i in range(2)]
        print(f"overhead of a run on one worker: {overhead[0]:.2f} ms by the clock, {overhead[1]:.2f} ms in processor time")

        (folder / "cluster").mkdir()
        cluster, out = Cluster(folder / "cluster", 2), folder / "killed"
        try:
            grid = folder / "grid.json"
            grid.write_text(json.dumps([GRID, scenario]))
            code = (
                "import destage, json, sys; grid, scenario = json.load(open(sys.argv[1]))\n"
                "destage.sweep(grid, sys.argv[2], scenario=scenario, out=sys.argv[3], on=sys.argv[4])"
            )
            client = subprocess.Popen([sys.executable, "-c", code, grid, TRACE, out, cluster.address])
            wait_for(lambda: parts(out) >= 5, 600)
            cluster.workers[0].send_signal(signal.SIGKILL)
            killed = parts(out)
            wait_for(lambda: parts(out) >= 10, 600)
            client.kill()
            client.wait()
            sweep("killed", on=cluster.address)
            known = sweeps["killed"].known
            print(f"one of two workers killed after {killed} parts, the client after {known} runs, and called again")
            assert 0 < known < RUNS, known
        finally:
            cluster.end()
        rows = sweeps["here"].file.read_bytes()
        assert all(sweep.file.read_bytes() == rows for sweep in sweeps.values())
        command = [program, "sweep", "--json", "--threads", "2", "--out", folder / "line", folder / "grid.toml"]
        # In the same order, which is that of the rows.
        dotted = [(f"{key}.{name}", values) for key, of in GRID.items() for name, values in (of.items() if isinstance(of, dict) else [("", of)])]
        keys = "".join(f"{key.rstrip('.')} = {json.dumps(values)}\n" for key, values in dotted)
        pairs = "".join(f"{key} = {json.dumps(value)}\n" for key, value in scenario.items())
        text = f"traces = [{json.dumps(str(TRACE))}]\n[scenario]\n{pairs}[grid]\n{keys}"
        (folder / "grid.toml").write_text(text)
        timed("destage sweep, two threads", lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), [])
        assert (folder / "line" / "sweep.parquet").read_bytes() == rows
        print(f"the same {len(rows)} B in all of them")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
