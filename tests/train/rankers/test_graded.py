"""Graded labels of rankers: from the outcomes of a full-stage log to lists, weights and objectives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.objectives.registry import OBJECTIVES
from shortlist.train.objectives.relabel import LADDERS, relabel
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer
from shortlist.train.rankers.ranker import ranking_loss
from shortlist.train.rankers.training_data.graded import list_grades, reaching, stage_negatives
from shortlist.train.rankers.training_data.training_set import ListSampling, RankingLists, TrainingSet
from shortlist.train.registry import make_trainer
from shortlist.train.stage_outcomes import StageOutcomes

T = 3  # stages; S = 3: served
STAGE = torch.tensor([[3, 3, 3, 3, 2, 2, 2, 1, 1, 1]])
Y = torch.tensor([[1, 1, 0, -1, -1, -1, -1, -1, -1, -1]])
PROB = torch.tensor([[1, 1, 1, 1, 0.5, 0.5, 0.5, 0.001, 0.001, 0.001]])


def request(passed: int = 1, count: int = 1, inclusion: bool = True) -> RequestBatch:
    """Candidates 0..9: two positives, one negative, one without feedback, and those that stages dropped."""
    items = torch.arange(10).expand(count, 10).clone()
    outcomes = StageOutcomes(
        *(one.expand(count, 10) for one in (STAGE, Y)),
        T,
        PROB.expand(count, 10) if inclusion else None,
        passed,
    )
    found = Candidates.of(
        items, torch.zeros(items.shape), {"n.rank": items.float(), "n.score": -items.float()}
    )
    targets = torch.tensor([[0, 1]]).expand(count, 2)
    return RequestBatch(Query.of([[11, 12]] * count), found.keep(passed <= STAGE), targets, logged=outcomes)


@given(
    st.lists(st.tuples(st.integers(0, T), st.integers(-1, 1)), min_size=1, max_size=12),
    st.sampled_from(sorted(LADDERS)),
)
def test_labels_are_those_of_the_relabel_rule(rows, name):
    """Spec 3.1: z_S for items that were not served, z_T and z_T+1 for feedback, none without feedback."""
    stage, y = (torch.tensor([one]) for one in zip(*rows, strict=True))
    found = Candidates.of(torch.arange(len(rows))[None], torch.zeros(1, len(rows)))
    ladder = LADDERS[name](T)
    got = StageOutcomes(stage, y, T).labels(found, ladder)
    assert np.array_equal(got.numpy(), relabel(stage, y, ladder, T).astype(np.float32), equal_nan=True)


def test_labels_follow_candidates_that_change_place():
    one = request()
    order = torch.tensor([[9, 0, 4]])
    labels = one.logged.labels(one.found.take(order), LADDERS["consecutive"](T))
    assert labels.tolist() == [[1, 4, 2]]


@pytest.mark.parametrize(("passed", "lowest"), [(1, 1), (2, 2)])
def test_stage_is_trained_on_what_reaches_it(passed, lowest):
    """Spec test 21: j = i - 1 leaves out nothing that the stage gets in serving."""
    kept = reaching(request(passed), FullStageSettings())
    assert kept.found.items[kept.found.valid].tolist() == [
        item for item in range(10) if STAGE[0, item] >= lowest and item != 3
    ]


def test_lowest_stage_leaves_out_more_and_may_not_leave_the_funnel():
    kept = reaching(request(), FullStageSettings(lowest_stage=T))
    assert kept.found.items[kept.found.valid].tolist() == [0, 1, 2]
    with pytest.raises(ConfigError, match=r"j must lie in 0..3, got 4"):
        reaching(request(), FullStageSettings(lowest_stage=4))
    with pytest.raises(ConfigError, match="passed 1 stages never reach stage 3; expected 2 to 3"):
        reaching(request(passed=2), FullStageSettings(lowest_stage=1))


def test_strata_that_are_not_used_leave_consecutive_labels():
    """Spec test 20: labels are consecutive again where a stratum is dropped."""
    assert FullStageSettings().labels(2, T)[1:] == (0, 1, 2, 3)
    assert FullStageSettings(stage_negatives=(1, 0, 2)).labels(2, T)[1:] == pytest.approx(
        (0, float("nan"), 1, 2), nan_ok=True
    )
    with pytest.raises(
        ConfigError, match="stage_negatives has 4 numbers, but stage 2 of 3 gets candidates of 3 strata"
    ):
        FullStageSettings(stage_negatives=(1, 1, 1, 1)).labels(2, T)


def test_stage_negatives_are_distinct_random_candidates_of_their_strata():
    one = reaching(request(), FullStageSettings())
    settings, rows = FullStageSettings(stage_negatives=(2, 2, 1)), torch.zeros(400, dtype=torch.int64)
    drawn = stage_negatives(one, rows, settings, torch.Generator().manual_seed(0))
    assert drawn.shape == (400, 5)
    assert bool((drawn[:, 0] == 2).all())  # the only shown negative
    assert bool((drawn[:, 1] == -1).all())  # a slot without an item is empty, never of another stratum
    assert bool(
        ((drawn[:, 2:4] >= 4) & (drawn[:, 2:4] <= 6) & (drawn[:, 2:3] != drawn[:, 3:4]).expand(-1, 2)).all()
    )
    share = torch.bincount(drawn[:, 4], minlength=10)[7:] / 400
    assert bool(((share > 0.23) & (share < 0.44)).all())


def test_weights_are_clipped_inverse_inclusion_probabilities():
    one = reaching(request(), FullStageSettings())
    items = torch.tensor([[0, 2, 4, 7, 50, -1]])
    first = torch.arange(6)[None] == 0
    labels, weight = list_grades(one, torch.tensor([0]), items, first, FullStageSettings(ht_weight=True))
    assert labels.tolist() == [[3, 2, 1, 0, 0, 0]]
    assert weight.tolist() == [[1, 1, 2, 100, 1, 1]]
    assert list_grades(one, torch.tensor([0]), items, first, FullStageSettings())[1] is None
    unknown = request(inclusion=False)
    assert list_grades(unknown, torch.tensor([0]), items, first, FullStageSettings(ht_weight=True))[1] is None


def lists_of(**settings) -> RankingLists:
    found = TrainingSet(ListSampling(**settings), [request(count=4)] * 5, 60, 0).lists(0, 0)
    assert found is not None
    return found


def test_whole_requests_have_a_label_for_every_candidate():
    lists = lists_of(negatives="all-candidates")
    labels, mask, weight = lists.graded
    assert labels[0][mask[0]].tolist() == [3, 3, 2, 1, 1, 1, 0, 0, 0]
    assert weight is None
    assert lists.list_weight.tolist() == [1, 1, 1, 1]


def test_instances_hold_one_positive_and_negatives_of_every_stage():
    lists = lists_of(stage_negatives=(1, 1, 2), negatives="all-candidates")
    labels, mask, _ = lists.graded
    assert labels.shape == (8, 5)  # two positives of four requests
    assert bool(mask.all())
    assert bool((labels == torch.tensor([3.0, 2, 1, 0, 0])).all())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_loss_is_the_weighted_mean_of_the_objective_over_lists(name):
    lists = lists_of(negatives="all-candidates", ht_weight=True)
    lists = replace(lists, weight=lists.weight * torch.tensor([[1.0], [2], [3], [4]]))
    scores = torch.randn(lists.found.shape, generator=torch.Generator().manual_seed(0))
    objective = ListSampling(objective=name).list_loss(3.0)
    labels, mask, weight = lists.graded
    each = torch.stack(
        [objective(*(one[row : row + 1] for one in (scores, labels, mask, weight)))[0] for row in range(4)]
    )
    expected = (each * torch.tensor([1.0, 2, 3, 4])).sum() / 10
    assert torch.isclose(ranking_loss(lambda query, found: scores, lists, objective), expected)


def test_softmax_of_weighted_negatives_counts_each_as_often_as_it_stands_for():
    lists = lists_of(negatives="all-candidates", ht_weight=True)
    scores = torch.randn(lists.found.shape, generator=torch.Generator().manual_seed(1))
    got = ranking_loss(lambda query, found: scores, lists)
    other = (scores.exp() * lists.inclusion * (lists.found.valid & ~lists.is_target)).sum(1, keepdim=True)
    losses = -torch.log(scores.exp() / (scores.exp() + other))
    assert torch.isclose(got, losses[lists.is_target].mean())


def test_parameters_that_the_objective_does_not_read_are_refused():
    with pytest.raises(ConfigError, match="objective 'softmax' does not read gain; it reads no parameters"):
        make_trainer("mlp-ranker", gain="linear")
    with pytest.raises(ConfigError, match="objective 'ranknet' does not read mu"):
        make_trainer("feature-ranker", objective="ranknet", mu=2.0)
    with pytest.raises(ConfigError, match="objective must be one of softmax, ranknet"):
        make_trainer("feature-ranker", objective="hinge")


SMALL = {
    "mlp-ranker": {"width": 4, "hidden": (8,)},
    "din-ranker": {
        "width": 4,
        "attention": (4,),
        "hidden": (8,),
        "max_history": 5,
        "windows": (3, 2),
        "device": "cpu",
    },
    "two-tower-scorer": {"width": 4},
}


def logged_context(world, batches: int = 10) -> TrainContext:
    """Requests of users who like items in even rows; the funnel kept items of small rows."""
    generator, made = torch.Generator().manual_seed(0), []
    for _ in range(batches):
        items = torch.stack([torch.randperm(len(world.items), generator=generator)[:20] for _ in range(16)])
        stage = torch.tensor([3] * 8 + [2] * 6 + [1] * 6).expand(16, 20)
        y = torch.where(stage == 3, (items % 2 == 0).long(), -1)
        ranks = torch.arange(20).float().expand(16, 20)
        found = Candidates.of(items, torch.zeros(16, 20), {"n.rank": ranks, "n.score": -ranks})
        history = torch.randint(0, len(world.items), (16, 6), generator=generator).tolist()
        targets = items.masked_fill(y != 1, -1)
        made.append(RequestBatch(Query.of(history), found, targets, logged=StageOutcomes(stage, y, T)))
    return TrainContext(world.split().train, world.catalog, batches=tuple(made))


@pytest.mark.parametrize("objective", ["softmax", *OBJECTIVES])
def test_every_objective_ranks_logged_positives_above_dropped_candidates(world, objective):
    context = logged_context(world)
    trainer = make_trainer("feature-ranker", objective=objective, epochs=8, learning_rate=0.02, hidden=(8,))
    stage = trainer.fit({"name": "rank"}, context)
    one = context.batches[4]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    assert one.logged.of(one.logged.stage, one.found).gather(1, best).float().mean() > 2.5


@pytest.mark.parametrize("kind", ["mlp-ranker", "din-ranker", "two-tower-scorer"])
def test_other_networks_take_an_objective_too(world, kind):
    context = logged_context(world, 5)
    stage = make_trainer(kind, objective="ranknet", epochs=1, **SMALL[kind]).fit({"name": "rank"}, context)
    one = context.batches[0]
    assert torch.isfinite(stage.score(one.query, one.found)).all()


def test_objective_works_on_out_of_fold_requests(world):
    context = logged_context(world)
    plain = replace(context, batches=tuple(replace(one, logged=None) for one in context.batches))
    trainer = make_trainer(
        "mlp-ranker", objective="lambdarank", epochs=8, learning_rate=0.02, **SMALL["mlp-ranker"]
    )
    stage = trainer.fit({"name": "rank"}, plain)
    one = plain.batches[4]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    assert one.is_target.gather(1, best).float().mean() > 0.5


@pytest.mark.parametrize("objective", ["lambdarank", "bce"])
def test_boosted_trees_learn_graded_labels(world, objective):
    pytest.importorskip("lightgbm")
    context = logged_context(world)
    trainer = make_trainer("boosted-ranker", objective=objective, epochs=20, min_leaf_size=5)
    stage = trainer.fit({"name": "rank"}, context)
    one = context.batches[4]
    best = stage.score(one.query, one.found).argmax(1, keepdim=True)
    assert one.logged.of(one.logged.stage, one.found).gather(1, best).float().mean() > 2.9


def test_boosted_trees_refuse_what_they_cannot_read():
    pytest.importorskip("lightgbm")
    with pytest.raises(
        ConfigError, match="objective 'lambdarank' does not read reduction; it reads sigma, gain"
    ):
        BoostedRankerTrainer(reduction="sum")
    with pytest.raises(ConfigError, match="objective must be one of lambdarank, bce, got 'ranknet'"):
        BoostedRankerTrainer(objective="ranknet")


def test_blend_passes_its_objective_to_the_network_and_keeps_that_of_the_trees(world):
    trainer = make_trainer(
        "blend-ranker", objective="ranknet", epochs=1, trees=3, hidden=(8,), ladder="binary"
    )
    stage = trainer.fit({"name": "rank"}, logged_context(world))
    assert trainer._network_trainer().objective == "ranknet"
    assert trainer._network_trainer().ladder == "binary"
    assert abs(float(stage.weights.sum()) - 1) < 1e-9


def test_parameters_of_an_objective_are_trained(world, monkeypatch):
    """ARF weighs its two terms by a learned parameter."""
    made = []
    monkeypatch.setattr(
        "shortlist.train.rankers.ranker._with_parameters",
        lambda network, objective: made.append(objective) or torch.nn.ModuleList([network, objective]),
    )
    make_trainer("feature-ranker", objective="arf", epochs=2, hidden=(8,)).fit(
        {"name": "r"}, logged_context(world, 5)
    )
    assert float(made[0].log_a.detach()) != 0
