"""The tree of a plan: large catalogues only, with as many epochs as fit."""

import numpy as np
import pytest

from shortlist.data import Catalog, Interactions, Vocabulary
from shortlist.pipeline import TYPES
from shortlist.train import train
from shortlist.train.auto import large
from shortlist.train.auto.estimates import Meter
from shortlist.train.auto.large import MAX_EPOCHS, MIN_EPOCHS, TreeSeconds, tree_seconds
from shortlist.train.auto.parts import LARGE
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.registry import TRAINERS
from tests.train.auto.test_compose import GivenSeconds, composed
from tests.train.auto.test_train import log, random_log


def test_small_catalogue_has_no_tree():
    assert "can all be scored" in composed(items=LARGE).left_out["tree"]


def test_tree_is_planned_with_the_epochs_that_fit_and_its_construction():
    slow = {"softmax": 1e9, "sampled": 1e9}
    made = composed(meter=GivenSeconds(**slow, tree=TreeSeconds(20.0, 15.0)), items=2 * LARGE)
    tree = made.stages["tree"]
    assert list(made.limits).index("tree") < list(made.limits).index("covisit")
    assert tree.settings == {"exclude_seen": True}
    assert MIN_EPOCHS <= tree.train["epochs"] < MAX_EPOCHS
    assert tree.train["minutes"] == pytest.approx((20 + 15 * tree.train["epochs"]) / 60, abs=0.01)
    assert sum(made.seconds.values()) <= 600
    PipelineTrainer.of(made.recipe(), TYPES, TRAINERS)  # its settings exist
    many = composed(meter=GivenSeconds(**slow, tree=TreeSeconds(1.0, 1.0)), items=2 * LARGE)
    assert many.stages["tree"].train["epochs"] == MAX_EPOCHS


def test_tree_that_does_not_fit_is_left_out_with_its_estimate():
    made = composed(meter=GivenSeconds(tree=TreeSeconds(1000.0, 10.0)), items=2 * LARGE)
    assert "tree" not in made.stages
    assert made.left_out["tree"].startswith("its construction and 5 epochs would take about 1,085 s")


def test_seconds_of_a_tree_grow_with_items_and_instances(monkeypatch):
    monkeypatch.setattr(large, "SAMPLE", (10, 20))
    rng = np.random.default_rng(0)
    events = Interactions.of(np.repeat(np.arange(100), 21), rng.integers(0, 40, 2100), n_items=40)
    ticks = iter([0.0, 1.0, 1.0, 3.0, 3.0, 9.0])  # 1 s and 2 s for trees, 1 s for each of 6 steps
    catalog = Catalog.bare(Vocabulary.of(list(range(40))))
    cost = tree_seconds(Meter(events, catalog, {}, clock=lambda: next(ticks)))
    deeper = np.log(40) / np.log(20)
    assert cost.build == pytest.approx(2 + 20 * 0.1 * deeper)
    assert cost.epoch == pytest.approx(2 * deeper)  # 2,000 instances in batches of 1,000


def test_large_catalogue_trains_a_tree(monkeypatch):
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(large, "tree_seconds", lambda meter: TreeSeconds(0.1, 0.1))
    saved = train("auto", log(*random_log(300, 150, 6)), minutes=1.0)
    assert "tree" not in saved.about.plan.left_out
    assert "tree" in {*saved.about.training, *saved.about.plan.dropped}
