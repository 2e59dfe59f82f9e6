"""The verbs evaluate, compare and diagnose on one bundle and the same users."""

import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app


def run(*arguments: object):
    answer = CliRunner().invoke(app, [str(one) for one in arguments])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.parametrize("options", [(), ("--at", "7")])
def test_three_verbs_print_the_same_headline(bundle, data_folder, options):
    shared = ("--data", data_folder, "--on", "test", *options)
    found = json.loads(run("evaluate", bundle, *shared, "--json"))["headline"]
    assert json.loads(run("compare", bundle, *shared, "--json"))["systems"]["bundle"]["headline"] == found
    assert json.loads(run("diagnose", bundle, *shared, "--users", 5, "--json"))["headline"] == found
    for verb, more in (("evaluate", ()), ("compare", ()), ("diagnose", ("--users", 5))):
        assert found["sentence"] in " ".join(run(verb, bundle, *shared, *more).split())


def test_chosen_metrics_and_cut_offs_reach_every_part_of_the_json(bundle, data_folder):
    for verb in ("evaluate", "compare"):
        text = run(verb, bundle, "--data", data_folder, "--metrics", "ndcg,mrr", "--at", "3,7", "--json")
        found = json.loads(text)
        found.pop("about", None)  # the training history names its validation metric
        for system in found.get("systems", {}).values():
            system.pop("about")
        assert "recall@" not in json.dumps(found)
        assert "ndcg@3" in text
        assert '"metric": "ndcg@7"' in text


def test_terminal_shows_all_chosen_metrics_and_cut_offs(bundle, data_folder):
    text = run("evaluate", bundle, "--data", data_folder, "--metrics", "mrr,coverage", "--at", "3,7")
    for name in ("mrr@3", "mrr@7", "coverage@3", "coverage@7"):
        assert f"│ {name}" in text


@pytest.mark.parametrize("verb", ["evaluate", "compare"])
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--metrics", "recall,luck", "--metrics: expected some of precision, recall, f1, hit_rate"),
        ("--at", "5,0", "--at: expected cut-offs from 1 to 1000, like --at 5,10,50; got '5,0'"),
    ],
)
def test_wrong_metrics_and_cut_offs_are_refused_before_loading(tmp_path, verb, option, value, message):
    arguments = [verb, str(tmp_path / "none"), "--data", str(tmp_path / "none"), option, value]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
