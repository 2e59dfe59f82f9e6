"""End to end on a real log: prepare, train, evaluate, recommend, explain."""

import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from tests.conftest import TINY

pytestmark = pytest.mark.data


def run(*arguments: object) -> dict:
    answer = CliRunner().invoke(app, [str(argument) for argument in (*arguments, "--json")])
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_movielens_100k_from_files_to_an_explained_slate(real_data, tmp_path):
    short = TINY.replace("epochs = 3\nbatch_size = 256", "epochs = 1\nbatch_size = 1024")
    short = short.replace("epochs = 8", "epochs = 3")  # of the ranker, after the two towers
    (tmp_path / "tiny.toml").write_text(short + "\n[train]\nrequests = 1000\n")
    data, bundle = tmp_path / "data", tmp_path / "bundle"
    assert (
        run("data", "prepare", "movielens", real_data / "ml-100k", "--out", data)["rows"]["kept"] == 100_000
    )
    run("train", tmp_path / "tiny.toml", "--data", data, "--out", bundle)
    evaluation = run("evaluate", bundle, "--data", data)
    assert evaluation["differences"]["popularity"]["recall@20"]["low"] > 0
    losses = evaluation["losses"]
    assert losses["relevant"] == losses["returned"] + sum(stage["lost"] for stage in losses["stages"])
    slate = run("recommend", bundle, "--user", 196, "-k", 5)
    assert [item["rank"] for item in slate["items"]] == [1, 2, 3, 4, 5]
    first = slate["items"][0]["item_id"]
    assert run("explain", bundle, "--user", 196, "--item", first, "-k", 5)["position"] == 1
