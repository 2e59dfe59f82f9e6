"""Rankers against their plain forms: both sides answer alike, and every ratio says what it means."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.errors import MissingExtraError, ShortlistError
from shortlist.evaluate.losses import StageTrace, decompose
from shortlist.lab.bench import ranker
from shortlist.lab.bench.ranker import PARTS, Contest, Size, bench_ranker, lists_apart, losses_apart
from shortlist.train.rankers.training_set import ListSampling, TrainingSet

SMALL = Size(
    items=60,
    candidates=6,
    history=5,
    requests=3,
    features=4,
    trees=4,
    rounds=6,
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


def nothing(turn: int) -> None:
    """No work."""


def test_every_ratio_is_told_with_what_it_means():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    threads = torch.get_num_threads()
    told = bench_ranker(size=SMALL, repeats=2, seconds=0)
    assert told["name"] == "ranker"
    assert not told["skipped"]
    assert set(told["ratios"]) == {one["id"] for one in told["claims"]} == RATIOS | TREES
    rows = {(one["method"], one["metric"]): one for one in told["rows"]}
    for name, one in told["ratios"].items():
        assert one["means"]
        assert math.isfinite(one["ratio"])
        assert one["ratio"] > 0
        assert told[name] == one["ratio"]
        assert rows[name, "largest difference"]["mean"] <= ranker.CLOSE
        assert len(rows[name, "ratio"]["values"]) == 2
    assert all(told["ratios"][one["id"]]["means"] in one["note"] for one in told["claims"])
    assert torch.get_num_threads() == threads


def test_without_the_library_the_reason_is_told_and_the_rest_is_measured(monkeypatch):
    def missing():
        raise MissingExtraError("lightgbm", "boosted")

    monkeypatch.setattr(ranker, "lightgbm", missing)
    told = bench_ranker(size=SMALL, repeats=1, seconds=0)
    assert set(told["ratios"]) == RATIOS
    assert set(told["skipped"]) == {"trees"}
    assert "shortlist[boosted]" in told["skipped"]["trees"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_both_sides_answer_alike_for_other_seeds(name, seed):
    if name == "trees":
        pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    assert [one.differ <= ranker.CLOSE for one in PARTS[name](SMALL, seed)] in ([True], [True, True])


@pytest.mark.parametrize("differ", [1e-3, math.inf, math.nan])
def test_sides_that_differ_are_not_timed(differ):
    contest = Contest("one", "so", ("plain", nothing), ("ours", nothing), differ, least=1.0)
    with pytest.raises(ShortlistError, match="one: plain and ours differ by"):
        contest.measured(1, 0.0)


def test_a_claim_holds_on_the_right_side_of_its_limit():
    faster = Contest("one", "so", ("plain", nothing), ("ours", nothing), 0.0, least=2.0)
    assert [faster.told(ratio)["holds"] for ratio in (1.9, 2.0, 3.0)] == [False, True, True]
    assert faster.told(2.0)["note"] == "at least 2; so"
    dearer = Contest("two", "so", ("platt", nothing), ("raw", nothing), 0.0, most=1.3)
    assert [dearer.told(ratio)["holds"] for ratio in (1.1, 1.4)] == [True, False]
    assert dearer.told(1.1)["note"] == "at most 1.3; so"


def test_quick_work_has_more_turns_when_there_is_time(monkeypatch):
    monkeypatch.setattr(ranker, "MOST", 7)
    contest = Contest("one", "so", ("plain", nothing), ("ours", nothing), 0.0, least=1.0)
    assert len(contest.measured(2, 0.0)[0]) == 2
    assert len(contest.measured(2, 60.0)[0]) == 7


def test_a_difference_of_lists_is_seen_and_their_order_is_not():
    lessons = TrainingSet(
        ListSampling(mode="original", n_negatives=6), ranker._rounds(SMALL, 0), SMALL.items, 0
    )
    lists = lessons.lists(0, 0)
    assert lists is not None
    turned = replace(lists, found=lists.found.take(torch.tensor([[0, 6, 5, 4, 3, 2, 1]] * len(lists.weight))))
    assert lists_apart(lists, turned) == 0
    first_last = lists.found.take(torch.tensor([[6, 1, 2, 3, 4, 5, 0]] * len(lists.weight)))
    assert lists_apart(lists, replace(lists, found=first_last)) > 0
    assert lists_apart(lists, replace(lists, weight=lists.weight + 0.5)) == 0.5
    assert lists_apart(
        lists, replace(lists, found=lists.found.score(lists.found.scores + 2))
    ) == pytest.approx(2)
    bare = replace(lists.found, columns={"n.rank": torch.zeros(lists.found.shape)})
    assert lists_apart(lists, replace(lists, found=bare)) == math.inf
    assert lists_apart(None, lists) == math.inf


def test_a_difference_of_accounts_is_seen():
    trace = StageTrace(np.array([[True], [False]]), ("a",), np.array([4, 5]))
    other = StageTrace(np.array([[True], [True]]), ("a",), np.array([4, 5]))
    assert losses_apart(decompose(trace), decompose(trace)) == 0
    assert losses_apart(decompose(trace), decompose(other)) == 1
