"""shortlist log funnel prints, emits and reports what the library returns."""

import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.feedback.events.append import append_events
from shortlist.feedback.join import join_feedback
from tests.feedback.logs import funnel, traces, write_log
from tests.feedback.test_join import LATER, feedback_of


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("log")
    write_log(root, traces(funnel(60, 20, 10, 5), 40, 4), step=60_000)
    columns, _ = feedback_of(root)
    append_events(root, columns, ingest_ts_ms=LATER)
    join_feedback(root, watermark=LATER)
    return root


def invoke(*arguments):
    return CliRunner().invoke(app, ["log", "funnel", *map(str, arguments)])


def test_json_has_stages_aucs_models_and_utility(log, tmp_path):
    page = tmp_path / "deep" / "funnel.html"
    answer = invoke(log, "--json", "--report", page, "--requests", 100)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert (found["requests"], found["sampled"]) == (160, 100)
    assert [one["kept"] for one in found["stages"]] == [60, 20, 10, 5]
    assert {one["features"] for one in found["selection"]} == {"scores", "means"}
    assert len(found["utility"]["stages"]) == 4
    text = page.read_text("utf-8")
    for heading in ("Summary", "Utility lost per stage", "Selection models", "AUC of stage scores"):
        assert f"<h2>{heading}</h2>" in text
    assert "<script" not in text


def test_terminal_shows_every_table_and_the_caveat(log):
    shown = invoke(log).stdout
    for part in (
        "160 requests with 9,600 logged candidates",
        "candidates per request",
        "reveal ratio of nominators",
        "agreement of stages",
        "AUC of stage scores",
        "selection models",
        "labels exist for shown candidates only",
    ):
        assert part in " ".join(shown.split())


def test_folder_without_a_log_is_refused(tmp_path):
    answer = invoke(tmp_path / "nowhere")
    assert answer.exit_code == 2
    assert "expected the folder of a log" in " ".join(answer.stderr.split())
