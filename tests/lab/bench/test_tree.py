import pytest
import torch

from shortlist.errors import ShortlistError
from shortlist.index.tree import TreeIndex, search
from shortlist.lab.bench.tree import Naive, _child, against_naive, bench_tree, bytes_per_item
from shortlist.lab.bench.tree_job import large_index

CLAIMS = {
    "attention_step_over_plain",
    "cpu_fast_over_naive",
    "growth",
    "exhaustive_over_beam",
    "peak_gib",
    "same_answer_after_loading",
    "survivors_found",
    "survivors_found_by_search",
    "laid_fast_over_slow",
}


def test_the_benchmark_has_its_claims():
    result = bench_tree(items=300, sizes=(200, 600), changes=5, repeats=2)
    assert result.name == "tree"
    assert {claim.id for claim in result.claims} == CLAIMS
    for name in ("survivors_found", "survivors_found_by_search", "same_answer_after_loading"):
        assert result.figures[name] == 1
    assert 0 < result.figures["peak_gib"] < 8
    assert {row.method for row in result.rows} >= {"fast", "naive", "branch 2", "branch 8", "600 items"}


def test_the_naive_side_finds_the_same_items():
    index = large_index(400, 2, seed=1)
    slow = TreeIndex(index.tree, Naive(index.scorer).eval(), index.leaf_vectors)
    # A fixed generator: users whose scores tie in the last bits may get another order.
    users = torch.randint(400, (3, 69), generator=torch.Generator().manual_seed(0))
    fast, naive = (search(side, users, 10, 150) for side in (index, slow))
    assert torch.equal(fast.items, naive.items)
    torch.testing.assert_close(fast.scores, naive.scores, atol=1e-5, rtol=1e-5)
    state = slow.scorer.prepare(users)
    with pytest.raises(TypeError, match="rows, not vectors"):
        slow.scorer.score_vectors(state, torch.zeros(3, 1, 24))
    assert torch.equal(slow.scorer.naive(users, users), slow.scorer.score(state, users))


def test_time_per_score_is_time_per_query_over_its_scores():
    rows, _ = against_naive(items=200, repeats=2, seed=0)
    query, score = (next(row for row in rows if row.metric.startswith(start)) for start in ("ms", "micro"))
    assert query.mean * 1e3 / score.mean == pytest.approx(200)  # all leaves: the first level above 150


def test_bytes_per_item_are_those_of_the_arrays():
    sizes = bytes_per_item(large_index(1000, 2, seed=0))
    assert sizes["bytes per item, tree, stored"] == 4
    assert 4 + 4 + 8 + 2 * 2 < sizes["bytes per item, tree, in memory"] < 21
    assert sizes["bytes per item, tree and scorer, in memory"] > 2 * 24 * 4


def test_a_large_tree_that_fails_is_named():
    with pytest.raises(ShortlistError, match="the large tree failed"):
        _child(0, 1, 0)
