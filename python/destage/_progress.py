"""How far a sweep is, on the standard error."""

from __future__ import annotations

import sys
import time
from typing import TextIO

#: Seconds between lines of progress where there is no terminal.
EVERY = 10.0


class Progress:
    def __init__(self, far: tuple[int, int, int], wanted: bool, out: TextIO | None = None) -> None:
        self._runs, self._known, self._done = far
        self._wanted, self._out = wanted, out or sys.stderr
        self._live = wanted and self._out.isatty()
        self._began = self._told = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            print("\r\033[K", end="", file=self._out, flush=True)

    def say(self, text: str) -> None:
        """Says what should be known."""
        print(f"\r\033[K{text}" if self._live else text, file=self._out, flush=True)

    def words(self, seconds: float) -> str:
        """How far it is after so many seconds."""
        known = f" ({self._known:,} known)" if self._known else ""
        now = self._done - self._known
        left = seconds * (self._runs - self._done) / now if now > 0 else None
        unit, name = (60, "min") if left and left >= 90 else (1, "s")
        time_left = "time left unknown" if left is None else f"about {left / unit:.0f} {name} left"
        return f"{self._done:,} of {self._runs:,} runs{known}, {time_left}"

    def reach(self, done: int, runs: int) -> None:
        """So many of so many runs are done."""
        self._done, self._runs = done, runs
        now = time.monotonic()
        if not self._wanted or now - self._told < (0.2 if self._live else EVERY):
            return
        self._told = now
        text = self.words(now - self._began)
        print(f"\r\033[K{text}" if self._live else text, end="" if self._live else "\n", file=self._out, flush=True)
