"""What the command line has workers of a real Dask scheduler simulate: the same as it does by itself."""

import os
import signal
import subprocess
import sys
import time

import pytest

PAPER = """
name = "small"
title = "A small paper"
about = "About."
verdict = "Verdict."
seeds = 8
policies = ["lru", "bplru", "lb-clock"]

[settings]
device = "ssd"
start = "full"
limit = 40000

[[workload]]
name = "made up"
provenance = "stand-in"
stands-for = ["Trace"]
synthetic = "financial2"

[[claim]]
id = "S1"
where = "text"
workload = "Trace"
metric = "response"
new = "lb-clock"
than = "bplru"
caches = ["1MiB", "2MiB", "4MiB", "8MiB"]
claimed = [1, 9]
why = ["made-up"]

[[reason]]
id = "made-up"
text = "Nobody claims it."
"""


@pytest.fixture(autouse=True)
def own_python(monkeypatch):
    monkeypatch.setenv("DESTAGE_PYTHON", sys.executable)


def on(cluster, cli, *arguments: object, status: int = 0) -> str:
    """Calls the command line with the scheduler, by the Python that these tests are run by."""
    done = cli(*arguments, "--on", cluster.address)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr.strip().splitlines()[-1]


def test_advice_is_the_same(cluster, cli, trace, tmp_path):
    call = ["advise", trace, "--limit", "5000", "--warmup", "10%", "--budget", "8MiB", "--json"]
    call += ["--policy", "lru,fab,2q,gcar+lru"]
    here = cli(*call)
    assert here.returncode == 0, here.stderr
    assert on(cluster, cli, *call) == here.stdout
    # Its page too, of a workload that each worker makes.
    call = ["advise", "--workload", "random", "--limit", "3000", "--policy", "lru,fab", "--budget", "1MiB"]
    assert cli(*call, "--report", tmp_path / "here").returncode == 0
    on(cluster, cli, *call, "--report", tmp_path / "there")
    files = sorted((tmp_path / "here").iterdir())
    assert len(files) == len(list((tmp_path / "there").iterdir())) > 5
    for file in files:
        assert (tmp_path / "there" / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_paper_is_the_same_also_if_a_worker_dies(cluster, cli, tmp_path):
    paper = tmp_path / "small.toml"
    paper.write_text(PAPER)
    call = ["reproduce", paper, "--markdown"]
    here = cli(*call)
    assert here.returncode == 0, here.stderr
    command = [os.environ["DESTAGE"], *call, "--resume", tmp_path / "kept", "--on", cluster.address]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while len(list((tmp_path / "kept").glob("*.json"))) < 3:
        assert time.monotonic() < until and child.poll() is None
        time.sleep(0.01)
    cluster.workers[0].send_signal(signal.SIGKILL)
    told, _ = child.communicate(timeout=300)
    assert child.returncode == 0 and told == here.stdout
    # All of it is kept, and nothing is asked of workers any more.
    cluster.workers[1].send_signal(signal.SIGKILL)
    assert on(cluster, cli, *call, "--resume", tmp_path / "kept") == here.stdout


def test_what_is_wrong_is_told(cluster, cli, trace, tmp_path, monkeypatch):
    done = cli("advise", trace, "--on", cluster.address, "--threads", "2")
    assert done.returncode == 2 and "cannot be used with" in done.stderr, done.stderr
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("0,0,4096,w,0.1\n0,8,4096,w,nonsense\n")
    assert "wrong.csv" in on(cluster, cli, "advise", wrong, "--format", "spc", status=1)
    monkeypatch.setenv("DESTAGE_PYTHON", "/nowhere/python3")
    done = cli("reproduce", "lb-clock", "--on", cluster.address)
    assert done.returncode == 1 and "DESTAGE_PYTHON names another Python" in done.stderr, done.stderr
    monkeypatch.setenv("DESTAGE_PYTHON", sys.executable)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    done = cli("advise", trace, "--on", cluster.address)
    assert done.returncode == 1 and "has not all that --on needs" in done.stderr, done.stderr
