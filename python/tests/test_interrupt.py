"""Ctrl-C ends a call."""

import os
import signal
import threading
import time

import pytest

import destage


def interrupted(call) -> float:
    """How long the call goes on after Ctrl-C, in seconds."""
    pressed = []

    def press() -> None:
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        return time.monotonic() - pressed[0]
    finally:
        timer.cancel()


def test_ctrl_c_ends_a_simulation(trace):
    """It would take minutes."""
    forever = {"policy": ["lru", "fab"], "cache": ["1MiB", "4MiB"], "repeat": 4_000}
    assert interrupted(lambda: destage.simulate(trace, **forever)) < 10
    assert destage.simulate(trace, policy="lru", cache="1MiB", limit=100).runs[0].requests == 100


def test_ctrl_c_ends_a_policy_in_python(trace):
    class Nothing(destage.Policy):
        def access(self, page, is_write):
            return False

    assert interrupted(lambda: destage.simulate(trace, policy=Nothing, cache="1MiB", repeat=4_000)) < 10


def test_ctrl_c_leaves_no_file(tmp_path):
    assert interrupted(lambda: destage.synth(tmp_path / "t.destage", length=2_000_000_000)) < 10
    deadline = time.monotonic() + 10
    while any(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []
