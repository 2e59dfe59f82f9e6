"""Rankers against plain implementations: both sides give equal results, and every ratio has a meaning."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import MissingExtraError, ShortlistError
from shortlist.evaluate.losses import StageTrace, decompose
from shortlist.lab.bench import comparison, ranker
from shortlist.lab.bench.comparison import CLOSE, Comparison
from shortlist.lab.bench.ranker import (
    PARTS,
    Size,
    bench_ranker,
    lists_difference,
    losses_difference,
)
from shortlist.train.rankers.training_data.training_set import ListSampling, TrainingSet

SMALL = Size(
    items=60,
    candidates=6,
    history=5,
    requests=3,
    features=4,
    trees=4,
    batches=6,
    found=12,
    users=40,
    draws=20,
    pairs=100,
)
TREES = {"lightgbm_over_ours", "lightgbm_over_ours_batch"}
RATIOS = {
    "din_plain_over_ours",
    "din_plain_over_ours_batch",
    "lists_plain_over_ours",
    "bootstrap_plain_over_ours",
    "decompose_plain_over_ours",
    "platt_over_raw",
    "isotonic_over_raw",
}


def no_work(call: int) -> None:
    """No work."""


def test_every_ratio_has_a_claim_and_a_meaning():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    threads = torch.get_num_threads()
    result = bench_ranker(size=SMALL, repeats=2, seconds=0)
    assert result.name == "ranker"
    assert not result.skipped
    assert set(result.ratios) == {claim.id for claim in result.claims} == RATIOS | TREES
    rows = {(row.method, row.metric): row for row in result.rows}
    for name, ratio in result.ratios.items():
        assert ratio["means"]
        assert math.isfinite(ratio["ratio"])
        assert ratio["ratio"] > 0
        assert result.figures[name] == ratio["ratio"]
        assert rows[name, "largest difference"].mean <= CLOSE
        assert len(rows[name, "ratio"].values) == 2
    assert all(result.ratios[claim.id]["means"] in claim.note for claim in result.claims)
    assert torch.get_num_threads() == threads


def test_a_missing_library_is_reported_and_the_rest_is_measured(monkeypatch):
    def missing():
        raise MissingExtraError("lightgbm", "boosted")

    monkeypatch.setattr(ranker, "lightgbm", missing)
    result = bench_ranker(size=SMALL, repeats=1, seconds=0)
    assert set(result.ratios) == RATIOS
    assert set(result.skipped) == {"trees"}
    assert "shortlist[boosted]" in result.skipped["trees"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_both_sides_give_equal_results_for_other_seeds(name, seed):
    if name == "trees":
        pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    assert [comparison.differ <= CLOSE for comparison in PARTS[name](SMALL, seed)] in (
        [True],
        [True, True],
    )


@pytest.mark.parametrize("differ", [1e-3, math.inf, math.nan])
def test_sides_that_differ_are_not_timed(differ):
    comparison = Comparison("one", "so", ("plain", no_work), ("ours", no_work), differ, least=1.0)
    with pytest.raises(ShortlistError, match="one: plain and ours differ by"):
        comparison.measured(1, 0.0)


def test_a_claim_holds_on_the_right_side_of_its_limit():
    faster = Comparison("one", "so", ("plain", no_work), ("ours", no_work), 0.0, least=2.0)
    assert [faster.claim(ratio).holds for ratio in (1.9, 2.0, 3.0)] == [False, True, True]
    assert faster.claim(2.0).note == "at least 2; so"
    slower = Comparison("two", "so", ("platt", no_work), ("raw", no_work), 0.0, most=1.3)
    assert [slower.claim(ratio).holds for ratio in (1.1, 1.4)] == [True, False]
    assert slower.claim(1.1).note == "at most 1.3; so"


def test_fast_work_has_more_rounds_if_time_allows(monkeypatch):
    monkeypatch.setattr(comparison, "MAX_ROUNDS", 7)
    one = Comparison("one", "so", ("plain", no_work), ("ours", no_work), 0.0, least=1.0)
    assert len(one.measured(2, 0.0)[0]) == 2
    assert len(one.measured(2, 60.0)[0]) == 7


def test_lists_difference_ignores_the_order_of_negatives():
    training_set = TrainingSet(
        ListSampling(mode="original", n_negatives=6), ranker._batches(SMALL, 0), SMALL.items, 0
    )
    lists = training_set.lists(0, 0)
    assert lists is not None
    reordered = replace(
        lists, found=lists.found.take(torch.tensor([[0, 6, 5, 4, 3, 2, 1]] * len(lists.weight)))
    )
    assert lists_difference(lists, reordered) == 0
    first_last = lists.found.take(torch.tensor([[6, 1, 2, 3, 4, 5, 0]] * len(lists.weight)))
    assert lists_difference(lists, replace(lists, found=first_last)) > 0
    assert lists_difference(lists, replace(lists, weight=lists.weight + 0.5)) == 0.5
    assert lists_difference(
        lists, replace(lists, found=lists.found.score(lists.found.scores + 2))
    ) == pytest.approx(2)
    bare = replace(lists.found, columns={"n.rank": torch.zeros(lists.found.shape)})
    assert lists_difference(lists, replace(lists, found=bare)) == math.inf
    assert lists_difference(None, lists) == math.inf


def test_losses_difference_compares_all_counts():
    trace = StageTrace(np.array([[True], [False]]), ("a",), np.array([4, 5]))
    other = StageTrace(np.array([[True], [True]]), ("a",), np.array([4, 5]))
    assert losses_difference(decompose(trace), decompose(trace)) == 0
    assert losses_difference(decompose(trace), decompose(other)) == 1
