"""Over-fetching and retries of approximate indexes, with a toy index that finds 5 items per effort."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from shortlist.index import make_index
from shortlist.index.approximate import ApproximateIndex
from shortlist.index.registry import OPTIONAL
from tests.index.worlds import grouped

NARROW = {"flat": {}, "hnsw": {"ef": 8}, "scann": {"nprobe": 2}}  # all others: nprobe 2


@dataclass(frozen=True, eq=False)
class Lazy(ApproximateIndex):
    """Finds 5 items per effort; item n has score -n for every query."""

    kind = "lazy"
    calls: list  # (queries, k, effort) of every search
    max_effort = 20

    def raw_search(self, queries, k, effort):
        self.calls.append((len(queries), k, effort))
        rows = np.full((len(queries), k), -1, np.int64)
        found = min(k, 5 * effort)
        rows[:, :found] = np.arange(found)[::-1]
        return rows, -rows.astype(np.float32)

    make = settings = tensors = build = tuned = None


def test_excluded_rows_are_overfetched_without_extra_effort():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.zeros(2, 1), 3, torch.tensor([[1, 1, -1], [0, -1, 500]]))
    assert rows.tolist() == [[0, 2, 3], [1, 2, 3]]
    assert scores.tolist() == [[0, -2, -3], [-1, -2, -3]]
    assert index.calls == [(2, 4, 1)]


def test_fetch_size_depends_on_the_rows_a_query_excludes():
    index = Lazy(100, 1, [])
    exclude = torch.full((4, 60), -1)
    exclude[1], exclude[2, :2], exclude[3, :3] = torch.arange(20, 80), 9, torch.tensor([99, 98, 97])
    index.search(torch.zeros(4, 1), 3, exclude)
    assert [call for call in index.calls if call[2] == 1] == [(1, 3, 1), (1, 4, 1), (1, 8, 1), (1, 64, 1)]


def test_only_incomplete_queries_are_searched_again_with_more_effort():
    index = Lazy(100, 1, [])
    exclude = torch.tensor([[0, 1, 2, 3], [9, 8, 7, 6], [-1, -1, -1, -1]])
    rows, _ = index.search(torch.zeros(3, 1), 5, exclude)
    assert rows.tolist() == [[4, 5, 6, 7, 8], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert index.calls == [(1, 5, 1), (2, 16, 1), (1, 16, 4)]


def test_effort_stops_at_an_exhaustive_search():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.zeros(1, 1), 100, torch.tensor([[99]]))
    assert rows[0, :99].tolist() == list(range(99))
    assert (rows[0, 99], scores[0, 99]) == (-1, -torch.inf)
    assert [effort for _, _, effort in index.calls] == [1, 4, 16, 20]


def test_non_finite_queries_are_not_searched():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.tensor([[torch.nan], [torch.inf]]), 2, torch.tensor([[1], [-1]]))
    assert index.calls == []
    assert (rows == -1).all()
    assert (scores == -torch.inf).all()


def test_queries_and_excluded_rows_of_any_dtype_and_layout_are_accepted():
    index = Lazy(100, 2, [])
    queries = torch.zeros(2, 3, dtype=torch.float64).T.requires_grad_()
    exclude = torch.tensor([[0, 1, 2], [4, 3, 2]], dtype=torch.int32).T
    assert index.search(queries, 2, exclude)[0].tolist() == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("kind", OPTIONAL)
def test_results_do_not_depend_on_the_batch(kind):
    if find_spec(OPTIONAL[kind][1]) is None:
        pytest.skip(f"{OPTIONAL[kind][1]} is not installed")
    items, queries = grouped(n_queries=60)
    index = make_index(kind, items, **NARROW.get(kind, {"nprobe": 2}))
    exclude = torch.full((60, 900), -1)
    exclude[7] = torch.randperm(1200, generator=torch.Generator().manual_seed(0))[:900]
    exclude[20:40, :30] = index.search(queries[20:40], 30)[0]
    together = index.search(queries, 10, exclude)
    alone = [index.search(queries[row, None], 10, exclude[row, None]) for row in range(60)]
    assert torch.equal(together[0], torch.cat([rows for rows, _ in alone]))
    torch.testing.assert_close(together[1], torch.cat([scores for _, scores in alone]))
