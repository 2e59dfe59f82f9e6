"""What approximate indexes do with what a package finds: a toy package that finds little by little."""

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
    """Looks at 5 items per effort; item n has score -n for everybody."""

    kind = "lazy"
    asked: list  # what it was asked, (queries, k, effort)
    most = 20

    def ask(self, queries, k, effort):
        self.asked.append((len(queries), k, effort))
        rows = np.full((len(queries), k), -1, np.int64)
        found = min(k, 5 * effort)
        rows[:, :found] = np.arange(found)[::-1]
        return rows, -rows.astype(np.float32)

    make = settings = tensors = build = tuned = None


def test_it_is_asked_for_as_many_more_as_are_excluded_and_no_harder_than_needed():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.zeros(2, 1), 3, torch.tensor([[1, 1, -1], [0, -1, 500]]))
    assert rows.tolist() == [[0, 2, 3], [1, 2, 3]]
    assert scores.tolist() == [[0, -2, -3], [-1, -2, -3]]
    assert index.asked == [(2, 4, 1)]


def test_everybody_is_asked_for_as_much_as_the_own_list_needs():
    index = Lazy(100, 1, [])
    exclude = torch.full((4, 60), -1)
    exclude[1], exclude[2, :2], exclude[3, :3] = torch.arange(20, 80), 9, torch.tensor([99, 98, 97])
    index.search(torch.zeros(4, 1), 3, exclude)
    assert [one for one in index.asked if one[2] == 1] == [(1, 3, 1), (1, 4, 1), (1, 8, 1), (1, 64, 1)]


def test_only_who_lacks_something_asks_again_harder():
    index = Lazy(100, 1, [])
    exclude = torch.tensor([[0, 1, 2, 3], [9, 8, 7, 6], [-1, -1, -1, -1]])
    rows, _ = index.search(torch.zeros(3, 1), 5, exclude)
    assert rows.tolist() == [[4, 5, 6, 7, 8], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    assert index.asked == [(1, 5, 1), (2, 16, 1), (1, 16, 4)]


def test_effort_ends_where_every_item_is_looked_at():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.zeros(1, 1), 100, torch.tensor([[99]]))
    assert rows[0, :99].tolist() == list(range(99))
    assert (rows[0, 99], scores[0, 99]) == (-1, -torch.inf)
    assert [effort for _, _, effort in index.asked] == [1, 4, 16, 20]


def test_nobody_is_asked_for_a_query_that_is_no_number():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.tensor([[torch.nan], [torch.inf]]), 2, torch.tensor([[1], [-1]]))
    assert index.asked == []
    assert (rows == -1).all()
    assert (scores == -torch.inf).all()


def test_queries_and_rows_of_any_type_and_layout_are_taken():
    index = Lazy(100, 2, [])
    queries = torch.zeros(2, 3, dtype=torch.float64).T.requires_grad_()
    exclude = torch.tensor([[0, 1, 2], [4, 3, 2]], dtype=torch.int32).T
    assert index.search(queries, 2, exclude)[0].tolist() == [[1, 2], [0, 2], [0, 1]]


@pytest.mark.parametrize("kind", OPTIONAL)
def test_who_else_is_in_the_batch_does_not_change_an_answer(kind):
    if find_spec(OPTIONAL[kind][1]) is None:
        pytest.skip(f"{OPTIONAL[kind][1]} is not installed")
    items, queries = grouped(asked=60)
    index = make_index(kind, items, **NARROW.get(kind, {"nprobe": 2}))
    exclude = torch.full((60, 900), -1)
    exclude[7] = torch.randperm(1200, generator=torch.Generator().manual_seed(0))[:900]
    exclude[20:40, :30] = index.search(queries[20:40], 30)[0]
    together = index.search(queries, 10, exclude)
    alone = [index.search(queries[one, None], 10, exclude[one, None]) for one in range(60)]
    assert torch.equal(together[0], torch.cat([rows for rows, _ in alone]))
    torch.testing.assert_close(together[1], torch.cat([scores for _, scores in alone]))
