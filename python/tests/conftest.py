"""What tests share. scripts/python-test says where the command line and the traces are."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def trace() -> Path:
    """A recording of PostgreSQL under pgbench, of 119,807 requests."""
    return ROOT / "traces" / "own.oltp-pgbench-ext4.destage"


@pytest.fixture(scope="session")
def cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls the command line."""
    program = os.environ["DESTAGE"]

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)

    return call


@pytest.fixture
def refused(cli: Callable[..., subprocess.CompletedProcess[str]]) -> Callable[..., str]:
    """What the command line says that is wrong."""

    def told(*arguments: object) -> str:
        done = cli(*arguments)
        assert done.returncode == 1, done
        return done.stderr.strip().removeprefix("destage: ")

    return told


def wait_for(what, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.005)


class Cluster:
    """A scheduler and workers, each a process, over the loopback interface."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.processes, self.workers = folder, [], []
        file = folder / "scheduler.json"
        self.start("distributed.cli.dask_scheduler", "--port", "0", "--scheduler-file", file)
        wait_for(lambda: file.exists() and file.read_text().strip().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        for _ in range(workers):
            self.workers.append(self.start("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-nanny"))

    def start(self, module: str, *arguments: object) -> subprocess.Popen:
        command = [sys.executable, "-m", module, "--host", "127.0.0.1", "--no-dashboard", *map(str, arguments)]
        log = (self.folder / f"{len(self.processes)}.log").open("w")
        environment = os.environ | {"DESTAGE_CACHE": str(self.folder / "cache")}
        process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env=environment)
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster", 2)
    try:
        yield cluster
    finally:
        cluster.end()
