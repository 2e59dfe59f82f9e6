"""shortlist refresh."""

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from shortlist.artifact import load
from shortlist.cli import app
from shortlist.cli.refresh import _lines
from shortlist.metrics.significance import PairedTest
from shortlist.pipeline.about import Refresh
from shortlist.train.renewal import refresh as refresh_module
from shortlist.train.renewal.retrain import Retrained


def run(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_bundle_is_replaced_and_the_changes_are_printed(bundle, data_folder, tmp_path):
    copy = shutil.copytree(bundle, tmp_path / "bundle")
    answer = run("refresh", copy, "--data", data_folder)
    assert answer.exit_code == 0
    assert "events of 300 users in the histories; new users: 0" in answer.stdout
    assert "popular, covisit, rank; other stages keep their weights" in answer.stdout
    assert load(copy).about["refresh"]["left_out"] == 0
    payload = json.loads(run("refresh", copy, "--data", data_folder, "--json").stdout)
    assert (payload["kept"], payload["about"]["refresh"]["users"]) == (True, 300)


def test_worse_bundle_is_not_kept_and_the_exit_code_says_so(bundle, data_folder, monkeypatch):
    before = load(bundle).version
    worse = Retrained(50, 0.3, 0.1, PairedTest(-0.2, -0.3, -0.1, 0.001, -1.0, 0, 0, 50))
    monkeypatch.setattr(refresh_module, "_trained_again", lambda *_: (None, worse))
    answer = run("refresh", bundle, "--data", data_folder, "--retrain")
    assert answer.exit_code == 1
    assert "0.3000 before, 0.1000 now, difference -0.2000 [-0.3000, -0.1000]" in " ".join(
        answer.stdout.split()
    )
    assert "was not changed" in answer.stdout
    assert load(bundle).version == before


def test_folders_of_another_kind_are_refused(bundle, data_folder):
    assert "expected kind 'recommender'" in run("refresh", data_folder, "--data", data_folder).stderr
    assert "expected kind 'dataset'" in run("refresh", bundle, "--data", bundle).stderr


def test_bundle_at_out_is_replaced_only_with_force(bundle, data_folder, tmp_path):
    there = shutil.copytree(bundle, tmp_path / "there")
    refused = run("refresh", bundle, "--data", data_folder, "--out", there)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert run("refresh", bundle, "--data", data_folder, "--out", there, "--force").exit_code == 0
    assert load(there).about["refresh"]["left_out"] == 0


def test_command_to_type_is_quoted():
    facts = Refresh("x", 1, 1, 0, 1, 1, ())
    assert _lines(facts, Path("my bundle"), Path("d"))[-1].endswith(
        "shortlist refresh 'my bundle' --data d --retrain"
    )
