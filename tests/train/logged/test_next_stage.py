"""Objectives of a recipe that read the logged scores of the next stage: where they come from, what they train."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.feedback import LabelRules, LogReader, concat, labelled
from shortlist.grammar import leaves
from shortlist.pipeline import parse_recipe, run
from shortlist.train import train
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.logged.request_batches import logged_batches
from shortlist.train.models.mf import MFTrainer
from shortlist.train.models.retrieval import cuts_of
from shortlist.train.models.two_tower import TwoTowerTrainer
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.objectives.registry import NEXT_OBJECTIVES
from shortlist.train.pipeline import train_pipeline
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.rankers.training_data.graded import list_cuts, reaching
from shortlist.train.rankers.training_data.listed import valid_items
from shortlist.train.registry import TRAINERS, TYPES
from tests.train.logged.served import RECIPE, queries

STAGES = ("pool", "seen", "pre", "rank")
PRE = 'type = "feature-ranker"\n[stages.pre.train]\n'


def pre_rank(objective: str, more: str = "") -> str:
    return RECIPE.replace(PRE, f'{PRE}objective = "{objective}"\n{more}')


@pytest.fixture(scope="module")
def log(world, log_folder):
    return read_training_log(log_folder, world, STAGES, 1000, scores=True)


def test_scores_of_every_stage_are_standardised_over_the_log(world, log_folder, log):
    record = concat(list(labelled(LogReader(log_folder), LabelRules().version)))
    raw = record.scores[~record.filtered]
    assert log.log.scored == (1, 3, 4)  # the filter `seen` scores nothing
    for column in (0, 2, 3):
        known = np.isfinite(raw[:, column])
        mine = log.log.scores[known, column]
        assert np.array_equal(np.isfinite(log.log.scores[:, column]), known)
        assert abs(mine.mean()) < 1e-3
        assert abs(mine.std() - 1) < 1e-3
        assert np.corrcoef(mine, raw[known, column])[0, 1] > 0.999
    assert [log.log.next_stage(number) for number in (1, 2, 3, 4)] == [3, 3, 4, None]


def test_log_without_scores_is_read_where_no_objective_needs_them(world, log_folder):
    assert read_training_log(log_folder, world, STAGES, 1000).log.scores is None
    for recipe, needed in ((RECIPE, False), (pre_rank("icc"), True), (pre_rank("arf"), False)):
        assert PipelineTrainer.of(parse_recipe(recipe), TYPES, TRAINERS).reads_scores is needed


def test_lists_of_a_ranker_have_the_logged_scores_and_cuts_of_the_next_one(world, log):
    settings = FullStageSettings(objective="lcron")
    one = next(iter(logged_batches(log, world.events, 0)))
    one = reaching(replace(one, logged=replace(one.logged, passed=2)), settings)  # before the pre-ranker
    items = valid_items(one.found)
    cuts = list_cuts(one, torch.arange(len(items)), items, settings)
    stage = one.logged.of(one.logged.stage, one.found)[one.found.valid]
    assert torch.equal(cuts.kept[one.found.valid], stage >= 3)
    assert torch.equal(cuts.kept_next[one.found.valid], stage >= 4)
    assert torch.equal(
        ~cuts.next_scores[one.found.valid].isnan(), stage >= 3
    )  # the ranker scored what passed
    assert list_cuts(one, torch.arange(len(items)), items, FullStageSettings(objective="bpr")) is None


@pytest.mark.parametrize("trainer", [MFTrainer(objective="lcron"), TwoTowerTrainer(objective="rankflow")])
def test_instances_of_retrieval_have_the_logged_scores_of_the_pre_ranker(world, log, trainer):
    sampler = trainer.sampler(log, world.events, 0)
    batch = next(iter(sampler.batches(0)))
    cuts = cuts_of(batch, sampler.scores_of)
    assert sampler.scores_of == 3
    assert torch.equal(cuts.kept, batch.mask & (batch.stage >= 1))
    assert not bool(cuts.kept[:, -2:].any())  # random items of the catalogue
    row = {
        (int(request), int(item)): score
        for request, item, score in zip(log.log.request, log.log.item_id, log.log.scores[:, 2], strict=True)
    }
    request, item = int(batch.users[0]), int(batch.items[0, 0])
    assert cuts.next_scores[0, 0].item() == pytest.approx(row[request, item])


@pytest.fixture(scope="module")
def softmax(world, log):
    """The weights of a pre-ranker that is trained on the log by softmax."""
    made = train_pipeline(parse_recipe(RECIPE), world, log=log).recommender
    return leaves(made.pipeline)[-2].tensors()


@pytest.mark.parametrize("objective", [*NEXT_OBJECTIVES, "arf"])
def test_pre_ranker_learns_from_the_log_with_the_objective(world, log, softmax, objective):
    made = train_pipeline(parse_recipe(pre_rank(objective)), world, log=log).recommender
    assert run(made.pipeline, queries(world, range(5), 0)).items.shape == (5, 8)
    own = leaves(made.pipeline)[-2].tensors()
    assert any(not torch.equal(softmax[name], own[name]) for name in own)


@pytest.mark.parametrize("kind", [MFTrainer, TwoTowerTrainer])
@pytest.mark.parametrize("objective", [*NEXT_OBJECTIVES, "arf"])
def test_retrieval_learns_from_the_log_with_the_objective(world, log, kind, objective):
    small = log.take(np.arange(20))
    one, two = (
        kind(objective=name, epochs=1, device="cpu").learn(world.events, log=small).state_dict()
        for name in ("softmax", objective)
    )
    assert any(not torch.equal(one[name], two[name]) for name in one)
    assert all(torch.isfinite(tensor).all() for tensor in two.values() if tensor.is_floating_point())


def test_without_a_log_softmax_stands_in(world):
    plain, other = (
        train_pipeline(parse_recipe(one), world).recommender for one in (RECIPE, pre_rank("lcron"))
    )
    one, two = (leaves(made.pipeline)[-2].tensors() for made in (plain, other))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_last_stage_has_no_next_one(world, log):
    recipe = parse_recipe(RECIPE + 'objective = "lcron"\n', "served.toml")
    with pytest.raises(
        ConfigError,
        match=r"served.toml: \[stages.rank\]: objective = 'lcron' needs logged scores of a stage after stage 4 of 4",
    ):
        train_pipeline(recipe, world, log=log)


def test_recipe_reads_the_scores_of_the_log_it_is_trained_from(world, log_folder):
    made = train(parse_recipe(pre_rank("rankflow", "top_share = 1.0\n")), world, from_log=log_folder)
    assert made.about.out_of_fold.out_of_fold == "log"
