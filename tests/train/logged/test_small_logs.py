"""Training from logs that are as small as a log can be: one stage, one request, one version among several."""

from dataclasses import replace

import numpy as np
import pytest

from shortlist.errors import ConfigError
from shortlist.pipeline import parse_recipe, run
from shortlist.train import train
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.pipeline import train_pipeline
from tests.train.logged.served import RECIPE, queries, serve

STAGES = ("pool", "seen", "pre", "rank")
ONE_STAGE = """
pipeline = "mf % 10"
[stages.mf]
type = "mf"
[stages.mf.train]
epochs = 2
width = 4
"""


@pytest.mark.parametrize("requests", [1, 2, 7])
@pytest.mark.parametrize("objective", ["softmax", "rankflow"])
def test_log_shorter_than_one_batch_trains_every_stage(world, log_folder, requests, objective):
    log = read_training_log(log_folder, world, STAGES, requests, scores=True)
    text = RECIPE.replace("[stages.pre.train]\n", f'[stages.pre.train]\nobjective = "{objective}"\n')
    made = train_pipeline(parse_recipe(text), world, split=_all_events(world), log=log).recommender
    assert len(log) == requests
    assert run(made.pipeline, queries(world, range(5), 0)).items.shape == (5, 8)
    assert all(np.isfinite(history.validation).all() for history in made.about.training.values())


def _all_events(world):
    split = world.split()
    nobody = split.valid.take(slice(0))
    return replace(split, in_train=np.ones(len(split.events), bool), valid=nobody, test=nobody)


def test_few_logged_requests_are_warned_of(world, log_folder):
    log = read_training_log(log_folder, world, STAGES, 3)
    assert any("3 requests are few" in one for one in log.notes)


@pytest.fixture(scope="module")
def one_stage(world, tmp_path_factory):
    pipeline = train_pipeline(parse_recipe(ONE_STAGE), world).recommender.pipeline
    return serve(tmp_path_factory.mktemp("one") / "log", world, pipeline, range(40))


def test_log_of_one_stage_trains_retrieval(world, one_stage):
    made = train(parse_recipe(ONE_STAGE), world, from_log=one_stage)
    assert any("log: trained on" in one for one in made.about.warnings)
    log = read_training_log(one_stage, world, ("mf",), 100)
    assert log.log.n_stages == 1
    assert set(np.unique(log.log.stage)) <= {0, 1}


def test_log_of_one_stage_has_no_next_one(world, one_stage):
    recipe = parse_recipe(ONE_STAGE + 'objective = "icc"\n', "one.toml")
    with pytest.raises(ConfigError, match=r"one.toml: .*needs logged scores of a stage after stage 1 of 1"):
        train(recipe, world, from_log=one_stage)
