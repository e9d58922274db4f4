"""Simulations have the results and the errors of the command line."""

import html
import json
import pickle
import subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import destage

SCENARIO = """
policy = ["lru", "lb-clock"]
cache = ["1MiB", "4MiB"]
device = "ssd"
limit = 5000
[ssd]
preset = "850evo"
"""


def test_results_are_the_bytes_of_the_command_line(cli, trace):
    told = cli("sim", trace, "--policy=lru,gcar+lru", "--cache=1MiB,10%", "--device=ssd", "--limit=5000", "--json").stdout
    result = destage.simulate(
        destage.Trace(trace), policy=["lru", "gcar+lru"], cache=["1MiB", "10%"], device="ssd", limit=5_000, format=None
    )
    given = destage.simulate(trace, policy="lru,gcar+lru", cache="1MiB,10%", device="ssd", limit="5000")
    assert given.json() == told
    # Which format it is was told beside the trace, and is one of the settings.
    assert [run.response for run in result] == [run.response for run in given]


def test_arrays_are_simulated(cli, trace):
    told = cli("sim", trace, "--array=raid5:5", "--policy=none,write-back", "--cache=16MiB", "--limit=2000", "--json").stdout
    result = destage.simulate(trace, array="raid5:5", policy=["none", "write-back"], cache="16MiB", limit=2_000)
    assert result.json() == told
    assert result.runs[1].array.members == 5


def test_a_scenario_is_text_a_mapping_or_a_file(cli, trace, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    told = cli("sim", trace, "--scenario", file, "--json").stdout
    assert destage.run_scenario(SCENARIO, trace) == told
    assert destage.simulate(trace, scenario=file).json() == told
    mapping = {
        "policy": ["lru", "lb-clock"],
        "cache": ["1MiB", "4MiB"],
        "device": "ssd",
        "limit": 5_000,
        "ssd": {"preset": "850evo"},
    }
    assert destage.simulate(trace, scenario=mapping).json() == told
    assert len(destage.simulate(trace, scenario=SCENARIO, policy="lru", cache="1MiB")) == 1


def test_results_do_not_depend_on_threads(trace):
    assert destage.run_scenario(SCENARIO, trace, threads=1) == destage.run_scenario(SCENARIO, trace, threads=2)


def test_workers_are_called_with_text_and_answer_with_text(trace):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        answers = list(pool.map(destage.run_scenario, [SCENARIO, SCENARIO], [trace, trace]))
    assert answers == [destage.run_scenario(SCENARIO, trace)] * 2


@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({"polici": "lru"}, None),
        ({"cache": "much"}, ["--cache=much"]),
        ({"policy": "lruu"}, ["--policy=lruu"]),
        ({"ssd": {"planes": 3}}, ["--ssd.planes=3"]),
        ({"array": "raid5:2"}, ["--array=raid5:2"]),
        ({"from_": "2h", "to": "1h"}, ["--from=2h", "--to=1h"]),
        ({"latencies": True, "policy": ["lru", "fifo"]}, ["--latency-log=/dev/null", "--policy=lru,fifo"]),
    ],
)
def test_errors_have_the_text_of_the_command_line_and_name_arguments(refused, trace, settings, arguments):
    with pytest.raises(destage.DestageError) as raised:
        destage.simulate(trace, **settings)
    text = refused("sim", trace, *(arguments or ["--set=polici=lru"])).removeprefix("--set polici=lru: ").removeprefix("--")
    assert str(raised.value) == text


def test_what_is_no_trace_is_told_as_the_command_line_does(refused, tmp_path):
    for path in [tmp_path / "nowhere", tmp_path]:
        with pytest.raises(destage.DestageError) as raised:
            destage.simulate(path)
        assert str(raised.value) == refused("sim", path)
    with pytest.raises(destage.DestageError, match="which trace?"):
        destage.simulate()


def test_settings_of_the_command_line_alone_say_what_to_do_instead(trace):
    with pytest.raises(destage.DestageError, match=r"call .json\(\) on the result"):
        destage.simulate(trace, json="x.json")
    with pytest.raises(destage.DestageError, match="'device' takes one value, not a list"):
        destage.simulate(trace, device=["ssd", "none"])


def test_an_ssd_is_a_drive_of_today_unless_a_paper_has_it(trace):
    def named(**settings):
        return repr(destage.simulate(trace, policy="lru", cache="1MiB", limit=500, **settings)).split(":")[1].strip()

    assert named(device="ssd") == "SSD pm9a3 (modern model)"
    assert named(device="ssd", ssd={"model": "classic"}) == "SSD lawc (classic model)"
    assert named(device="ssd", ssd={"preset": "gcar"}) == "SSD gcar (classic model)"
    assert named() == "no device"
    array = destage.simulate(trace, array="raid5:3", policy="write-back", cache="8MiB", limit=200)
    assert repr(array).startswith("<Experiment: raid5 over disk, cache on SSD pm9a3 (modern model): ")


def test_settings_are_those_of_the_command_line(cli):
    told = cli("sim", "--help").stdout
    names = [setting.name for setting in destage.settings()]
    assert len(names) > 90
    assert all(f"--{name}" in told for name in names)
    assert "json" not in names
    told = cli("trace", "synth", "--help").stdout
    assert all(f"--{setting.name}" in told for setting in destage.settings("synth"))


def test_an_experiment_is_pickled_and_shown(trace):
    result = destage.simulate(trace, scenario=SCENARIO)
    again = pickle.loads(pickle.dumps(result))
    assert again == result and again.json() == result.json()
    assert repr(result).count("\n") >= 4 and "lb-clock" in repr(result)
    assert repr(result).startswith("<Experiment: SSD 850evo (modern model): ")
    assert repr(result.runs[0]).endswith(", SSD 850evo (modern model)>")
    run = result.runs[0]
    assert run.policy == "lru" and run.hit_ratio == pytest.approx(run.hits / run.accesses)
    assert run["response"]["all"].p99 > run.response.all.mean > 0
    assert run.series.bins[0].requests > 0
    with pytest.raises(AttributeError, match="there is no field 'hit_rate', only policy"):
        _ = run.hit_rate
    with pytest.raises(AttributeError):
        run.hits = 1
    assert json.loads(json.dumps(run.to_dict())) == json.loads(result.json())[0]
    told = [finding["kind"] for run in json.loads(result.json()) for finding in run["findings"]]
    assert [finding.kind for finding in result.findings] == told and told


def test_a_notebook_shows_the_page_of_the_report(cli, trace, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    cli("sim", trace, "--scenario", file, f"--report={tmp_path / 'report'}")
    page = (tmp_path / "report" / "index.html").read_text()
    result = destage.simulate(trace, scenario=SCENARIO)
    assert result.html() == page
    shown = result._repr_html_()
    style, frame = shown.split('<iframe srcdoc="')
    assert "data-jp-theme-light=false" in style and "color-scheme: dark" in style, "it follows JupyterLab's theme"
    assert html.unescape(frame.split('"')[0]) == page and "allow-scripts" in frame.split('"', 1)[1]
    assert result.report(tmp_path / "page.html").read_text() == page
    assert "<td>lru</td>" in result.runs[0]._repr_html_()


def test_results_that_the_command_line_wrote_are_read(cli, trace, tmp_path):
    cli("sim", trace, "--policy=lru", "--cache=1MiB", f"--json={tmp_path / 'r.json'}")
    result = destage.Experiment((tmp_path / "r.json").read_text())
    assert result.runs[0].policy == "lru"
    with pytest.raises(destage.DestageError, match="there is no table 'run', only runs, series"):
        result.table("run")
    with pytest.raises(destage.DestageError, match="not a list of runs"):
        destage.Experiment("{}").table()


def test_the_interpreter_is_free_meanwhile(trace):
    """Another thread of Python's goes on while one simulates."""
    from threading import Thread

    def simulate() -> None:
        destage.simulate(trace, policy="lru", cache="1MiB", repeat=20, threads=1)

    thread = Thread(target=simulate)
    thread.start()
    turns = 0
    while thread.is_alive():
        turns += 1
    assert turns > 10_000


def test_types_are_as_the_stubs_say():
    root = Path(destage.__file__).parent
    import os
    import sys

    config = Path(__file__).parents[2] / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", os.devnull, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    native = (root / "_destage.pyi").read_text()
    import destage._destage as module

    names = [name for name in destage.__all__ if getattr(module, name, None) is getattr(destage, name)]
    assert "Table" in names
    assert all(f"def {name}(" in native or f"class {name}" in native or f"{name}: " in native for name in names)
    assert all(getattr(destage, name).__doc__ for name in destage.__all__ if not name.startswith("_"))
