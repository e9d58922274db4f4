"""Ctrl-C ends a call, and what the call had under way."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import destage

#: The call returns within so many seconds, on a machine that has other work.
SOON = 1.5
#: What it had under way ends within so many.
GONE = 10


def under_way() -> int:
    """How many threads there are that do what calls asked for."""
    return sum(name(task) == "destage\n" for task in Path("/proc/self/task").iterdir())


def name(task: Path) -> str:
    """The name of a thread; none of one that ends meanwhile, before or after its file is opened."""
    try:
        return (task / "comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def interrupted(call, after: float = 0.1) -> None:
    """Presses Ctrl-C so many seconds after the call has something under way; without that it would take far longer."""
    pressed = []
    ended = threading.Event()

    def press() -> None:
        while not under_way():
            if ended.wait(0.005):
                return
        if not ended.wait(after):
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        took = time.monotonic() - pressed[0]
    finally:
        ended.set()
        finger.join()
    assert took < SOON
    deadline = time.monotonic() + GONE
    while under_way():
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.01)


AGEING = {"policy": "lru", "cache": "1MiB", "device": "ssd", "ssd": {"capacity": "100GiB"}, "memory": "8GiB"}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"policy": ["lru", "fab"], "cache": ["1MiB", "4MiB"], "repeat": 4_000}, id="simulating"),
        pytest.param({"policy": "lru", "cache": "auto", "repeat": 4_000}, id="finding sizes"),
        pytest.param({"policy": "lru", "cache": "1MiB", "warmup": "20%", "skip": 1_000, "repeat": 4_000}, id="skipping"),
        pytest.param({**AGEING}, id="ageing until it is steady"),
        pytest.param({**AGEING, "start": "aged:50", "policy": ["lru", "fifo"]}, id="ageing for two"),
        pytest.param({**AGEING, "start": "random"}, id="filling in random order"),
        pytest.param({**AGEING, "ssd": {"capacity": "200GiB", "model": "classic", "ftl": "fast"}}, id="ageing log blocks"),
        pytest.param({"array": "raid5:5", "device": "ssd", "policy": "none", "member_size": "60GiB", "memory": "16GiB"}, id="ageing members"),
        pytest.param({"array": "raid5:5", "policy": ["none", "kdd"], "cache": "64MiB", "repeat": 1_000}, id="an array"),
        pytest.param(
            {"array": "raid5:5", "policy": "none", "limit": 100, "fail": "1@1s", "replace": "1@2s", "member_size": "900GiB"},
            id="rebuilding",
        ),
        pytest.param({"policy": "lru", "cache": "1MiB", "device": "ssd", "latencies": ["response_ns"], "repeat": 300}, id="logging"),
    ],
)
def test_ctrl_c_ends_a_simulation(trace, settings):
    interrupted(lambda: destage.simulate(trace, **settings))


def test_a_call_after_one_that_was_interrupted_works(trace):
    interrupted(lambda: destage.simulate(trace, policy="lru", cache="1MiB", repeat=4_000))
    assert destage.simulate(trace, policy="lru", cache="1MiB", limit=100).runs[0].requests == 100


def test_ctrl_c_ends_a_policy_in_python(trace):
    class Nothing(destage.Policy):
        def access(self, page, is_write):
            return False

    interrupted(lambda: destage.simulate(trace, policy=Nothing, cache="1MiB", repeat=4_000))


def test_ctrl_c_ends_reading(tmp_path):
    """A trace is described, and written anew, and nothing is left of what was begun."""
    made = destage.synth(tmp_path / "t.destage", length=1_500_000, space="1TiB", sizes="4KiB")

    def again_and_again() -> None:
        while True:
            made.stat(locality="both")

    interrupted(again_and_again)
    interrupted(lambda: made.write(tmp_path / "copy.destage", level=19))
    assert [path.name for path in tmp_path.iterdir()] == ["t.destage"]


def test_ctrl_c_leaves_no_file(tmp_path):
    interrupted(lambda: destage.synth(tmp_path / "t.destage", length=2_000_000_000))
    assert list(tmp_path.iterdir()) == []
