"""What tests share. scripts/python-test says where the command line and the traces are."""

import os
import subprocess
from collections.abc import Callable
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
