"""The quick profile of the closed loop."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.full_stage.closed_loop import experiment
from shortlist.lab.experiments.full_stage.closed_loop.experiment import fsltr_closed_loop
from shortlist.lab.experiments.full_stage.closed_loop.loop_arms import ARMS, make_retrain
from shortlist.lab.experiments.full_stage.closed_loop.loop_cells import run_loop_cell, summary
from shortlist.lab.experiments.full_stage.closed_loop.oracles import funnel_utility, passed
from shortlist.lab.experiments.full_stage.closed_loop.sizes import LOOP_SIZES, SETUPS
from shortlist.lab.experiments.full_stage.closed_loop.slot_price import best_priced
from shortlist.lab.experiments.full_stage.closed_loop.train_retrieval import train_retrieval
from shortlist.simulate.full_stage.closed_loop import LoopState, LoopWorld
from shortlist.train.objectives.stage_log import StageLog
from tests.lab.experiments.results import check_result, ids, points

SEEDS = (0, 1)
ONLY = ("tiny/tight, 5 channels/random/*", "tiny/tight, 5 channels/oracle PRP/*", "tiny/tight/SSM/0")


@pytest.fixture(scope="module")
def cache_file(tmp_path_factory):
    return tmp_path_factory.mktemp("loop") / "cells.safetensors"


@pytest.fixture(scope="module")
def quick(cache_file):
    return fsltr_closed_loop(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)


@pytest.fixture(scope="module")
def state():
    """Two users and eight items; later stages keep 3, 2 and 1 of 4 retrieved ones."""
    generator = torch.Generator().manual_seed(0)
    grids = [torch.rand((2, 8), generator=generator) for _ in range(7)]
    world = LoopWorld(*grids, *(torch.zeros(8) for _ in range(3)), seed=0)
    settings = SETUPS[0].settings(LOOP_SIZES["tiny"])
    settings = type(settings)((4, 3, 2, 1), explore=0.0, rounds=1, warm=1)
    scores = {1: torch.zeros(2, 8), 2: world.prerank, 3: world.rank, 4: world.rerank}
    return LoopState(0, world, settings, scores)


def test_claims_are_about_arms_with_two_seeds(quick):
    check_result(quick, "fsltr-closed-loop")
    assert ids(quick) == {"oracle PRP > random in utility: tight, 5 channels"}
    assert quick.skipped["tiny/wide/LCRON/0"] == "not run"


def test_rows_have_a_curve_and_a_summary(quick):
    method = "oracle PRP on tight, 5 channels"
    curve = points(quick, method, "utility")
    assert list(curve) == [0.0, 1.0, 2.0]
    means = {one.metric: one.mean for one in quick.rows if one.method == method and one.x is None}
    assert means["utility"] == pytest.approx((curve[0.0] + curve[1.0]) / 2)
    assert means["drop"] == pytest.approx(means["utility"] - curve[2.0])
    assert means["total utility"] == pytest.approx(sum(curve.values()))
    assert {"reveal yield", "gini", "novelty", "lost in rank", "consistency with rank"} <= set(means)


def test_finished_cells_are_not_run_again(quick, cache_file, monkeypatch):
    def refused(*_, **__):
        raise AssertionError

    monkeypatch.setattr(experiment, "run_loop_cell", refused)
    again = fsltr_closed_loop(None, "quick", SEEDS, cache_file=cache_file, only=ONLY)
    assert again.rows == quick.rows


def test_a_cell_is_a_function_of_its_seed(quick, cache_file):
    folder = cache_file.with_name(f"{cache_file.stem}-grids")
    cell = experiment.LoopCell("tiny", "tight", "SSM", 0)
    _, facts = run_loop_cell(cell, folder, "cpu")
    expected = points(quick, "SSM on tight", "utility")
    assert [one["utility"] for one in facts["rounds"]] == pytest.approx(list(expected.values()), rel=1e-3)


@pytest.mark.parametrize("name", ["fsltr-closed-loop", "fsltr-closed-loop-small"])
def test_the_experiment_is_registered(name):
    with pytest.raises(ConfigError, match="quick or full"):
        EXPERIMENTS[name](None, "medium")


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_scores_all_cells(arm, state):
    size = LOOP_SIZES["tiny"]
    log = StageLog(
        np.array([0, 1]),
        np.array([0, 4, 8]),
        np.array([0, 1, 2, 3, 4, 5, 6, 7]),
        np.array([1, 2, 3, 4, 4, 1, 2, 3]),
        np.array([-1, -1, -1, 1, 1, -1, -1, -1]),
        8,
        4,
    )
    scores = make_retrain(arm, size, 0)(log, state)
    assert scores.shape == (2, 8)
    assert torch.isfinite(scores).all()


def test_the_slot_price_oracle_is_at_least_prp(state):
    scores = make_retrain("oracle slot price", LOOP_SIZES["tiny"], 0)(None, state)
    assert (funnel_utility(state, scores) >= funnel_utility(state, state.world.utility)).all()


def test_the_best_price_is_never_below_prp_by_its_own_value():
    generator = torch.Generator().manual_seed(1)
    inclusion, relevance = (torch.rand((20, 50), generator=generator) for _ in range(2))

    def value(scores):
        items = scores.topk(10, dim=1).indices
        return relevance.gather(1, items.gather(1, inclusion.gather(1, items).topk(3, dim=1).indices)).sum(1)

    gain = value(best_priced(inclusion, relevance, value, 3)) - value(relevance)
    assert gain.min() >= 0
    assert gain.max() > 0


def test_all_later_stages_cut(state):
    items = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])
    shown = passed(state.scores, (4, 3, 2, 1), items)
    for user, row in enumerate(items.tolist()):
        left = row
        for stage, capacity in ((2, 3), (3, 2), (4, 1)):
            left = sorted(left, key=lambda item: -float(state.scores[stage][user, item]))[:capacity]
        assert shown[user].tolist() == left


def test_training_puts_liked_items_first():
    """One user likes items 0 and 1, another 6 and 7: both are shown in every request."""
    size, users = LOOP_SIZES["tiny"], np.arange(2).repeat(40)
    log = StageLog(
        users,
        np.arange(81) * 2,
        np.where(users[:, None] == 0, [0, 1], [6, 7]).ravel(),
        np.full(160, 4),
        np.ones(160, np.int64),
        8,
        4,
    )
    budget = type(size.budget)(30, 30, 16, (0.2, 0.4), (1e-2,), 8)
    arm = make_retrain("SSM", size, 0).arm
    best = train_retrieval(log, arm, budget, 2, 0, torch.device("cpu")).topk(2, dim=1).indices
    assert best.sort(dim=1).values.tolist() == [[0, 1], [6, 7]]


def test_a_utility_that_stays_low_never_recovers():
    rounds = [{"utility": value, "coverage": 0.1 * value} for value in (4.0, 4.0, 3.0, 3.5, 3.9)]
    found = summary(rounds, 2)
    assert (found["drop"], found["rounds to recover"]) == (1.0, 2.0)
    assert summary([*rounds[:4], rounds[2]], 2)["rounds to recover"] == 3.0
    assert summary([rounds[0]] * 3, 2)["rounds to recover"] == 0.0
