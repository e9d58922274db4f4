"""Advice from Python is that of the command line."""

import json
import pickle

import destage
import pytest

FEW = ["lru", "fifo", "lb-clock"]


def test_advice_is_that_of_the_command_line(trace, cli):
    told = json.loads(cli("advise", trace, "--policy", ",".join(FEW), "--budget", "8MiB", "--limit", "12000", "--json").stdout)
    advice = destage.advise(trace, policy=FEW, budget="8MiB", limit=12000)
    assert advice.to_dict() == told
    assert advice.best.value == told["best"]["value"]
    assert advice.device.startswith("SSD pm9a3 (modern model): Samsung PM9A3")
    # The runs that it rests on have what is advised.
    found = [run for run in advice.experiment.runs if (run.policy, run.cache_bytes) == (advice.best.policy, advice.best.cache_bytes)]
    assert found[0].response.all.mean == advice.best.value
    again = pickle.loads(pickle.dumps(advice))
    assert again == advice and len(again.experiment.runs) == len(advice.experiment.runs)
    assert repr(advice).startswith(f"<Advice: {advice.best.policy}, ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "much"}, "budget=much: "),
        ({"budget": 4096}, "budget: a size of at least two pages"),
        ({"nvram_budget": "much"}, "nvram_budget=much: "),
        ({"nvram_budget": "1MiB"}, "nvram_budget: a buffer inside an SSD has no use for it"),
        ({"cache": "1MiB"}, "cache: sizes are looked for, up to budget"),
        ({"objective": "speed"}, "mean, p99"),
        ({"policy": type("Own", (destage.Policy,), {})}, "only built-in policies are advised"),
    ],
)
def test_errors_name_the_arguments(trace, settings, message):
    with pytest.raises(destage.DestageError) as error:
        destage.advise(trace, limit=1000, **settings)
    assert message in str(error.value) and "--" not in str(error.value)
