"""Training a pipeline from its own log: what each stage learns from it, what is measured, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.data import save_dataset
from shortlist.errors import ConfigError, DataError
from shortlist.feedback import Quota, Sampling
from shortlist.grammar import leaves
from shortlist.pipeline import load_recommender, parse_recipe, run
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.pipeline import train_pipeline
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.mlp_ranker import MLPRankerTrainer
from shortlist.train.registry import TRAINERS
from tests.train.logged.served import HEAD, RECIPE, queries, serve

STAGES = ("pool", "seen", "pre", "rank")
LEARNED = RECIPE.replace("epochs = 2\nwidth", "epochs = 15\nlearning_rate = 0.02\nwidth")


def liked_share(pipeline, world) -> float:
    slate = run(pipeline, queries(world, range(200), 0))
    return float((slate.items % 2 == 0)[slate.candidates.valid].float().mean())


@pytest.fixture(scope="module")
def log(world, log_folder):
    return read_training_log(log_folder, world, STAGES, 1000)


@pytest.mark.parametrize("objective", ["softmax", "ranknet"])
def test_pipeline_learns_what_logged_users_like(world, log, objective):
    recipe = parse_recipe(LEARNED + f'objective = "{objective}"\n')
    before = liked_share(train_pipeline(recipe, world).recommender.pipeline, world)
    after = liked_share(train_pipeline(recipe, world, log=log).recommender.pipeline, world)
    assert after > before + 0.05


def test_every_ranker_gets_the_logged_candidates_that_reach_it(world, log):
    seen: dict[str, TrainContext] = {}

    class Pre(FeatureRankerTrainer):
        def fit(self, settings, context):
            seen.setdefault("pre", context)
            return super().fit(settings, context)

    class Rank(MLPRankerTrainer):
        def fit(self, settings, context):
            seen.setdefault("rank", context)
            return super().fit(settings, context)

    trainers = {**TRAINERS, "feature-ranker": Pre, "mlp-ranker": Rank}
    train_pipeline(parse_recipe(RECIPE), world, trainers=trainers, log=log)
    for name, lowest in (("pre", 2), ("rank", 3)):
        context = seen[name]
        assert context.log is None  # a model inside a ranker must not learn from requests of its fold
        assert context.batches
        for one in context.batches:
            assert one.logged.passed == lowest
            assert int(one.logged.of(one.logged.stage, one.found)[one.found.valid].min()) == lowest
    scores = torch.cat([one.found.scores[one.found.valid] for one in seen["rank"].batches])
    assert len(scores.unique()) > 100  # of the pre-ranker, not of the pool


def test_cross_fitted_pre_ranker_never_saw_the_requests_that_it_scores(world, log):
    calls = []

    class Watched(FeatureRankerTrainer):
        def fit(self, settings, context):
            calls.append({user for one in context.batches for user in one.query.user.tolist()})
            return super().fit(settings, context)

    train_pipeline(parse_recipe(RECIPE), world, trainers={**TRAINERS, "feature-ranker": Watched}, log=log)
    whole, first, second = calls
    assert first | second == whole
    assert not first & second


def test_training_from_a_log_is_saved_measured_and_reported(world, log_folder, tmp_path):
    trained = train(parse_recipe(RECIPE), world, tmp_path / "bundle", from_log=log_folder)
    about = load_recommender(tmp_path / "bundle").about
    assert about.out_of_fold.out_of_fold == "log"
    assert about.refit is not None
    assert "log: trained on 200 of 200 requests" in about.warnings
    assert any("requests are later than held-out events of their users" in one for one in about.warnings)
    assert any("candidates that a filter removed" in one for one in about.warnings)
    assert trained.about.measured["test"].users > 0


def test_requests_after_held_out_events_train_the_served_pipeline_only(world, log_folder):
    """Under leave-last-out, the requests are later than the held-out event of every user."""
    recipe = parse_recipe(RECIPE)
    plain = train(recipe, world, protocol="leave-last-out")
    logged = train(recipe, world, protocol="leave-last-out", from_log=log_folder)
    one, two = (leaves(bundle.measured())[-1].tensors() for bundle in (plain, logged))
    assert all(torch.equal(one[name], two[name]) for name in one)
    served, other = (leaves(bundle.pipeline)[-1].tensors() for bundle in (plain, logged))
    assert not all(torch.equal(served[name], other[name]) for name in served)
    with pytest.raises(
        DataError, match="all 200 requests are later than the first held-out event of their user"
    ):
        train(recipe, world, protocol="leave-last-out", from_log=log_folder, refit=False)


def test_held_out_users_of_the_log_do_not_change_the_measured_pipeline(world, log):
    split = world.split()
    held_out = np.unique(split.events.users[~split.in_train])
    others = log.take(np.flatnonzero(~np.isin(log.log.user_id, held_out)))
    assert len(others) < len(log)
    one, two = (
        train_pipeline(parse_recipe(RECIPE), world, split=split, log=given).recommender.pipeline
        for given in (log, others)
    )
    for mine, other in zip(leaves(one), leaves(two), strict=True):
        assert all(torch.equal(tensor, other.tensors()[name]) for name, tensor in mine.tensors().items())


def test_sampled_log_with_weights_and_stage_negatives_trains(world, served, tmp_path):
    few = Sampling({2: Quota(5), 3: Quota(4)})
    root = serve(tmp_path / "log", world, served.pipeline, range(60), sampling=few)
    more = 'objective = "lambdarank"\nstage_negatives = [1, 2]\nht_weight = true\nladder = "low-exposed-negative"\n'
    log = read_training_log(root, world, STAGES, 1000)
    made = train_pipeline(parse_recipe(RECIPE + more), world, log=log).recommender
    assert run(made.pipeline, queries(world, range(5), 0)).items.shape == (5, 8)


def test_nominators_that_can_learn_from_a_log_do(world, log):
    retrieval = HEAD.replace('type = "popular"', 'type = "mf"\n[stages.popular.train]\nepochs = 2\nwidth = 4')
    recipe = RECIPE.replace(HEAD, retrieval)
    pipelines = (train_pipeline(parse_recipe(recipe), world, log=given).recommender for given in (None, log))
    one, two = (made.pipeline.nominators[0].tensors() for made in pipelines)
    assert any(not torch.equal(one[name], two[name]) for name in one)


def test_auto_and_a_rule_without_a_log_are_refused(world, log_folder):
    with pytest.raises(
        ConfigError, match="--from-log trains the pipeline that served the requests, got auto"
    ):
        train(data=world, from_log=log_folder)
    with pytest.raises(ConfigError, match="--label-rule chooses labels of a log, got it without --from-log"):
        train(parse_recipe(RECIPE), world, label_rule=3)


def test_lowest_stage_that_never_reaches_a_ranker_is_refused_with_its_place(world, log):
    recipe = parse_recipe(RECIPE + "lowest_stage = 1\n", "served.toml")
    with pytest.raises(
        ConfigError, match=r"served.toml: \[stages.rank\].*candidates that passed 1 stages never reach"
    ):
        train_pipeline(recipe, world, log=log)


def test_events_must_be_earlier_than_the_log(world, log):
    early = replace(log, time=np.full(len(log), int(world.events.times.min())))
    split = replace(world.split(), in_train=np.ones(len(world.events), bool))
    with pytest.raises(DataError, match="the data set has no event before the first request of the log"):
        train_pipeline(parse_recipe(RECIPE), world, split=split, log=early)


def test_command_line_trains_from_a_log(world, log_folder, tmp_path):
    (tmp_path / "served.toml").write_text(RECIPE)
    save_dataset(world, tmp_path / "data", "test")
    given = [
        "train",
        str(tmp_path / "served.toml"),
        "--data",
        str(tmp_path / "data"),
        "--out",
        str(tmp_path / "b"),
    ]
    done = CliRunner().invoke(app, [*given, "--from-log", str(log_folder)])
    assert done.exit_code == 0, done.output
    assert "log: trained on 200 of 200 requests" in done.output
    assert load_recommender(tmp_path / "b").about.out_of_fold.requests > 0
    wrong = CliRunner().invoke(app, [*given, "--force", "--from-log", str(tmp_path / "none")])
    assert wrong.exit_code != 0
    assert "expected the folder of a log, found none" in wrong.output
