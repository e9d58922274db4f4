"""Curves of hits from Python are those of the command line."""

import json
import pickle

import destage
import polars as pl
import pytest


def test_curves_are_those_of_the_command_line(trace, cli):
    flags = ["--policy", "lru,s3-fifo", "--sizes", "64KiB..4MiB/5,50%", "--rate", "20%", "--seed", "3", "--limit", "20000", "--ops", "writes"]
    told = json.loads(cli("trace", "mrc", trace, *flags, "--json").stdout)
    sizes = ["64KiB..4MiB/5", "50%"]
    curves = destage.mrc(trace, policy=["lru", "s3-fifo"], sizes=sizes, rate="20%", seed=3, limit=20_000, ops="writes")
    assert [curves.to_dict()] == told
    # A row for each point: exact of LRU, which misses no more in a larger buffer, an interval of the other one.
    frame = pl.DataFrame(curves.rows())
    assert frame.columns == ["policy", "cache_bytes", "hit_ratio", "miss_ratio", "half_width"] and frame.height == 12
    of_lru = frame.filter(pl.col("policy") == "lru")
    assert of_lru["miss_ratio"].is_sorted(descending=True) and of_lru["half_width"].max() == 0
    assert frame.filter(pl.col("policy") == "s3-fifo")["half_width"].max() > 0
    again = pickle.loads(pickle.dumps(curves))
    assert again == curves and again.rows() == curves.rows()


def test_curves_are_those_of_simulations(trace):
    curves = destage.mrc(destage.Trace(trace), sizes=[1 << 20, "4MiB"], limit=20_000)
    runs = destage.simulate(trace, policy="lru", cache=["1MiB", "4MiB"], limit=20_000).runs
    assert [row["hit_ratio"] for row in curves.rows()] == [run.hit_ratio for run in runs]
    assert curves.full_bytes <= curves.footprint_bytes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": "large"}, "sizes=large: "),
        ({"sizes": 5_000}, "sizes: "),
        ({"rate": "0%"}, "rate=0%: a share above 0%"),
        ({"policy": "lirs"}, "policy=lirs: "),
        ({"policy": "gcar+lru"}, "cannot be sampled"),
        ({"policy": type("Own", (destage.Policy,), {})}, "only built-in policies have curves"),
        ({"cache": "1MiB"}, "'cache' has no meaning for curves of hits: expected one of format"),
        ({"device": "ssd"}, "'device' has no meaning"),
        ({"progress": True}, "a setting of the command line alone"),
    ],
)
def test_errors_name_the_arguments(trace, settings, message):
    with pytest.raises(destage.DestageError) as error:
        destage.mrc(trace, limit=1_000, **settings)
    assert message in str(error.value) and "--" not in str(error.value)
