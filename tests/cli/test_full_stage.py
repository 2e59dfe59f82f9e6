"""A simulated service from its first request to a pipeline that is trained on its log, through the command line."""

import json

import pytest
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.pipeline import load_recommender

SIZES = ("--size", "tiny", "--requests", "150", "--set", "capacities=[60, 20, 8, 3]", "--set", "days=0.5")
RECIPE = """
name = "funnel"
pipeline = "mf % 40 + popular % 20 >> prerank % 20 >> rank % 8 >> rerank % 3"
[stages.mf]
type = "mf"
[stages.mf.train]
epochs = 2
width = 4
objective = "ranknet"
[stages.popular]
type = "popular"
[stages.prerank]
type = "feature-ranker"
[stages.prerank.train]
epochs = 1
hidden = [4]
objective = "lcron"
[stages.rank]
type = "mlp-ranker"
[stages.rank.train]
epochs = 1
width = 4
objective = "rankflow"
[stages.rerank]
type = "feature-ranker"
[stages.rerank.train]
epochs = 1
hidden = [4]
objective = "lambdarank"
"""


def shortlist(*arguments, code: int = 0):
    answer = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert answer.exit_code == code, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A folder with the recipe, and the data and the joined log of a simulation."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "funnel.toml").write_text(RECIPE)
    shortlist("simulate", "short-video", "--out", folder / "sim", *SIZES)
    shortlist("log", "join", folder / "sim" / "log")
    return folder


def test_simulated_requests_train_a_pipeline_that_is_evaluated_and_serves_the_next_round(service):
    data, log, bundle = service / "sim" / "data", service / "sim" / "log", service / "bundle"
    shortlist("train", service / "funnel.toml", "--data", data, "--from-log", log, "--out", bundle)
    about = load_recommender(bundle).about
    assert about.out_of_fold.out_of_fold == "log"
    assert any(one.startswith("log: trained on 1") for one in about.warnings)
    assert shortlist("evaluate", bundle, "--data", data)
    again = service / "again"
    done = shortlist("simulate", "short-video", "--out", again, *SIZES, "--bundle", bundle)
    assert done["impressions"] > 0
    joined = shortlist("log", "join", again / "log")
    assert joined["join"]["positives"] > 0
    shortlist(
        "train",
        service / "funnel.toml",
        "--data",
        again / "data",
        "--from-log",
        again / "log",
        "--out",
        service / "b2",
    )
    assert not any("were served by" in one for one in load_recommender(service / "b2").about.warnings)
