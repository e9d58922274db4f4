"""What a call from Python takes beside the command line: `python python/tools/overhead.py target/release/destage`.

Over a made-up trace of 10^6 requests, with the package that is installed: medians of the wall time of both, one after the
other, and their ratio; and what an access takes in a policy that is written in Python, beside the built-in one.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import destage

ROUNDS = 11
RUNS = {
    "LRU of 64 MiB, no device": {"policy": "lru", "cache": "64MiB"},
    "LRU of 64 MiB, an SSD": {"policy": "lru", "cache": "64MiB", "device": "ssd"},
}


class Lru(destage.Policy):
    """Least recently used."""

    def __init__(self, capacity_pages: int, pages_per_block: int) -> None:
        super().__init__(capacity_pages, pages_per_block)
        self.pages: dict[int, None] = {}

    def access(self, page: int, is_write: bool) -> int | None:
        held = self.pages.pop(page, self) is None
        self.pages[page] = None
        if held or len(self.pages) <= self.capacity_pages:
            return None
        victim = next(iter(self.pages))
        del self.pages[victim]
        return victim


def seconds(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = destage.synth(Path(folder) / "trace.destage", length=1_000_000, sizes="4KiB", footprint="zipf:1.1", read=30)
        for name, settings in RUNS.items():
            flags = [f"--{key}={value}" for key, value in settings.items()]
            command = [program, "sim", str(trace.path), *flags, "--threads=1", "--json", "--progress=false"]
            both: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                both[0].append(seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)))
                both[1].append(seconds(lambda: destage.simulate(trace.path, threads=1, **settings).runs))
            line, call = map(statistics.median, both)
            print(f"{name}: command line {line:.3f} s, Python {call:.3f} s, {100 * (call / line - 1):+.1f} %")
        times = {
            policy: seconds(lambda policy=policy: destage.simulate(trace, policy=policy, cache="64MiB", threads=1))
            for policy in ["lru", Lru]
        }
        built_in, own = times.values()
        print(f"a policy in Python: {own:.2f} s for 10^6 accesses, {own / built_in:.0f} times the built-in one's {built_in:.3f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
