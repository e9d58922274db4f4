"""Traces, simulations and results of destage in Python.

    import destage

    trace = destage.Trace("mine.blkparse")
    result = destage.simulate(trace, policy=["lru", "lb-clock"], cache=["4MiB", "64MiB"], device="ssd")
    result                       # in a notebook: the report, with its charts
    result.runs[0].hit_ratio     # plain objects
    result.table().to_polars()   # tables, without a copy

Settings have the names of the command line (`destage sim --help`), with `_` for `-`; sizes are bytes or have a unit
("64MiB"), times have a unit ("10ms"). `destage.settings()` lists them. Whatever goes wrong is a `DestageError` with the
command line's words. A call releases the interpreter's lock, and Ctrl-C ends it.
"""

from ._calls import (
    Setting,
    advise,
    formats,
    mrc,
    policies,
    run_scenario,
    settings,
    simulate,
    synth,
    workloads,
    write_trace,
)
from ._destage import VERSION as __version__
from ._destage import DestageError, Table
from ._policy import Policy
from ._results import Advice, Experiment, Finding, MissRatioCurves, Record, Run
from ._sweep import Sweep, sweep
from ._trace import Trace

__all__ = [
    "Advice",
    "DestageError",
    "Experiment",
    "Finding",
    "MissRatioCurves",
    "Policy",
    "Record",
    "Run",
    "Setting",
    "Sweep",
    "Table",
    "Trace",
    "__version__",
    "advise",
    "formats",
    "mrc",
    "policies",
    "run_scenario",
    "settings",
    "simulate",
    "sweep",
    "synth",
    "workloads",
    "write_trace",
]
