"""Learned limits in a plan: the recipe, the candidates that the ranker is trained on, and the report."""

from dataclasses import replace

import pytest

from shortlist.data.dataset import Dataset
from shortlist.pipeline import load_recommender
from shortlist.pipeline.plan_report import PlanReport
from shortlist.pipeline.recipe import Recipe, StageConfig
from shortlist.simulate import embedded
from shortlist.train import train
from shortlist.train.auto import train as auto_training
from shortlist.train.auto.budget import Deadline
from shortlist.train.auto.estimates import Meter
from shortlist.train.auto.train import AutoTraining, limits_of, with_limits
from shortlist.train.folds import Folds
from shortlist.train.split.choose import SplitChoice

STAGES = {name: StageConfig("popular") for name in ("a", "b")} | {"rank": StageConfig("feature-ranker")}
RECIPE = Recipe("auto", "a % 60 + b % 20 >> rank % 20", STAGES)
SEGMENTS = {"nominators": ("a", "b"), "limits": ((10, 30), (50, 5)), "history": (4,)}


def test_limits_of_a_plan_are_read_from_its_expression():
    assert limits_of(RECIPE.expression) == {"a": 60, "b": 20}


def test_learned_limits_replace_those_of_the_plan():
    changed = with_limits(RECIPE, SplitChoice({"a": 35, "b": 45}, "", True))
    assert changed.expression == "a % 35 + b % 45 >> rank % 20"
    assert changed.stages == RECIPE.stages


def test_segments_add_a_split_behind_the_pool():
    changed = with_limits(RECIPE, SplitChoice({"a": 63, "b": 38}, "", True, SEGMENTS, 55))
    assert changed.expression == "a % 63 + b % 38 >> split % 55 >> rank % 20"
    assert changed.stages["split"] == StageConfig("split", SEGMENTS)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return embedded(0, "small")


def trained(dataset, monkeypatch, made, out=None):
    """`auto` with the choice of limits that `made` returns for those of the plan."""
    monkeypatch.setattr(Deadline, "late", False)
    monkeypatch.setattr(Meter, "ease", lambda _: 0.01)
    monkeypatch.setattr(auto_training, "choose_split", lambda folds, limits, seed: made(limits))
    monkeypatch.setattr(auto_training, "winner", lambda report: None)  # the pipeline is saved
    return train("auto", dataset, out, minutes=0.05)


def test_pipeline_with_a_learned_split_is_trained_refitted_and_loaded(dataset, monkeypatch, tmp_path):
    def halves(limits):
        row = tuple(max(limit // 2, 1) for limit in limits.values())
        split = {"nominators": tuple(limits), "limits": (row, row[::-1]), "history": (5,)}
        return SplitChoice(limits, "more of the targets", True, split, 40)

    bundle = trained(dataset, monkeypatch, halves, tmp_path / "bundle")
    assert " >> split % 40 >> rank % 20" in repr(bundle.pipeline)
    assert bundle.about.plan.reasons["pipeline"] == "more of the targets"
    loaded = load_recommender(tmp_path / "bundle")
    assert repr(loaded.pipeline) == repr(bundle.pipeline)
    assert "split % 40" in loaded.recipe.expression


def test_kept_limits_have_their_reason_in_the_report(dataset, monkeypatch):
    few = SplitChoice({"a": 60, "b": 20}, "fixed limits: too few")
    monkeypatch.setattr(auto_training, "choose_split", lambda folds, limits, seed: few)
    work = AutoTraining(None, RECIPE, dataset, None)
    folds, deadline = Folds((), dataset.events), Deadline(60.0, 0.0, lambda: 1.0)
    recipe, same, report = work._split(RECIPE, folds, PlanReport(), deadline)
    assert (recipe, same) == (RECIPE, folds)
    assert report.left_out == {"split": "fixed limits: too few"}


def test_limits_stay_where_the_time_is_up_or_one_nominator_is_left(dataset, monkeypatch):
    monkeypatch.setattr(auto_training, "choose_split", None)  # not asked
    work, folds = AutoTraining(None, RECIPE, dataset, None), Folds((), dataset.events)
    late, early = (Deadline(60.0, 0.0, lambda now=now: now) for now in (59.0, 1.0))
    one = replace(RECIPE, expression="a % 60 >> rank % 20")
    assert work._split(RECIPE, folds, PlanReport(), late)[0] is RECIPE
    assert work._split(one, folds, PlanReport(), early)[0] is one
