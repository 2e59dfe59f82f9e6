"""shortlist log live writes the events of a service, and a log without those that a bundle has."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shortlist.artifact import Lineage
from shortlist.cli import app
from shortlist.pipeline import About, save_recommender
from shortlist.pipeline.live.states import live_states
from shortlist.state import EventLog, StateSettings, UserEvent
from shortlist.state.events.archive import EVENTS
from tests.pipeline.live.live_users import recommender

NOW = 1_800_000_000_000


@pytest.fixture
def states(tmp_path):
    folder = tmp_path / "states"
    with EventLog(folder / EVENTS) as log:
        live_states(recommender(), StateSettings(), log).apply(
            [UserEvent(user, "i3", NOW + at, f"e{at}") for at, user in enumerate(("a", "b", "new"))], NOW + 9
        )
    return folder


@pytest.fixture
def bundle(tmp_path):
    """A bundle with the first of the three events."""
    save_recommender(
        replace(recommender(), about=About(name="live", ends=NOW)), tmp_path / "bundle", Lineage()
    )
    return tmp_path / "bundle"


def run(*arguments):
    return CliRunner().invoke(app, ["log", "live", *map(str, arguments)])


def test_events_are_written_as_a_table(states, tmp_path):
    done = run(states, "--out", tmp_path / "events.parquet")
    assert done.stdout == f"3 events written to {tmp_path / 'events.parquet'}\n"
    table = pq.read_table(tmp_path / "events.parquet")
    assert table.to_pydict() == {
        "user": ["a", "b", "new"],
        "item": ["i3"] * 3,
        "time": [NOW, NOW + 1, NOW + 2],
    }
    again = run(states, "--out", tmp_path / "events.parquet")
    assert again.exit_code == 2
    assert "replace it with --force" in again.output
    assert json.loads(run(states, "--out", tmp_path / "events.csv", "--json").stdout) == {"written": 3}
    assert {one.name for one in tmp_path.iterdir()} == {"states", "events.parquet", "events.csv"}


def test_folders_of_the_table_are_made(states, tmp_path):
    out = tmp_path / "deep" / "folder" / "events.jsonl"
    assert run(states, "--out", out).exit_code == 0
    assert [one.name for one in out.parent.iterdir()] == ["events.jsonl"]
    assert len(out.read_text().splitlines()) == 3


def test_events_of_a_bundle_are_left_out_of_the_trimmed_log(states, bundle, tmp_path):
    done = run(states, "--trim", tmp_path / "next", "--bundle", bundle)
    assert "1 events left out" in done.stdout
    for folder, count in ((states, 3), (tmp_path / "next", 2)):
        with EventLog(folder / EVENTS) as log:
            assert log.size == count
    assert run(states, "--trim", tmp_path / "next", "--bundle", bundle).exit_code != 0  # it has events


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected --out FILE, --trim FOLDER or both"),
        (["--trim", "x"], "--trim and --bundle go together"),
        (["--out", "x.xlsx"], "expected a file that ends in .parquet, .csv, .jsonl"),
    ],
)
def test_options_that_do_not_go_together_are_refused(states, arguments, message):
    done = run(states, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_a_folder_without_states_is_refused(tmp_path):
    done = run(tmp_path, "--out", tmp_path / "events.csv")
    assert done.exit_code != 0
    assert "expected the folder of `shortlist serve --state`" in " ".join(done.output.split())
