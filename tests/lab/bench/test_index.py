import sys

import pytest
import torch

from shortlist.errors import MissingExtraError, ShortlistError
from shortlist.index import make_index
from shortlist.lab.bench.index import _child, bench_index, grouped, shared

CLAIMS = {
    "exact_over_faiss",
    "exact_over_faiss_batch_1",
    "exact_over_faiss_batch_64",
    "same_as_faiss",
    "evaluation_peak_gib",
}


def test_the_benchmark_has_its_claims():
    pytest.importorskip("faiss", reason="faiss is not installed")
    threads = torch.get_num_threads()
    result = bench_index(items=600, users=50, repeats=2)
    assert result.name == "index"
    assert {claim.id for claim in result.claims} == CLAIMS
    figures = result.figures
    assert figures["exact_over_faiss"] == max(figures[f"exact_over_faiss_batch_{batch}"] for batch in (1, 64))
    assert figures["same_as_faiss"] > 0.999
    assert 0 < figures["evaluation_peak_gib"] < 4
    rows = {(row.method, row.metric): row.mean for row in result.rows}
    for kind in ("flat", "hnsw", "ivf", "ivf-pq", "residual"):
        assert 0 < rows[kind, "recall@100"] <= 1
        assert rows[kind, "queries_per_second over exact, batch 64"] > 0
    assert rows["flat", "bytes per item"] == pytest.approx(256, abs=1)
    assert rows["50 users, 600 items", "seen_again"] == 0
    assert torch.get_num_threads() == threads


def test_without_faiss_the_install_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.delitem(sys.modules, "shortlist.index.faiss_index", raising=False)
    with pytest.raises(MissingExtraError, match=r"shortlist\[ann\]"):
        bench_index(items=300, users=5, repeats=1)


def test_the_same_seed_gives_the_same_vectors():
    one, other = grouped(500, 8, seed=3), grouped(500, 8, seed=3)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
    assert one[0].shape == (500, 8)
    assert not torch.equal(one[0], grouped(500, 8, seed=4)[0])


def test_shared_is_the_recall_of_exact_search():
    vectors = torch.eye(4)
    exact, other = make_index("exact", vectors), make_index("exact", vectors.roll(2, 0))
    queries = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    assert shared(exact, exact, queries, 2) == 1
    assert shared(exact, other, queries, 2) == 0
    assert shared(exact, other, queries, 3) == pytest.approx(2 / 3)


def test_a_job_that_fails_is_named():
    with pytest.raises(ShortlistError, match="ranking for all users failed"):
        _child(-1, 10, 0)
