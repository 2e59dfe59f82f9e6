"""What approximate indexes do with what a package finds: a toy package that finds little by little."""

from dataclasses import dataclass

import numpy as np
import torch

from shortlist.index.approximate import ApproximateIndex, distinct, ordered


@dataclass(frozen=True, eq=False)
class Lazy(ApproximateIndex):
    """Looks at 5 items per effort; item n has score -n for everybody."""

    kind = "lazy"
    asked: list  # what it was asked, (queries, k, effort)
    most = 20

    def ask(self, queries, k, effort):
        self.asked.append((len(queries), k, effort))
        rows = np.full((len(queries), k), -1, np.int32)
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


def test_only_who_lacks_something_asks_again_harder():
    index = Lazy(100, 1, [])
    rows, _ = index.search(torch.zeros(2, 1), 5, torch.tensor([[0, 1, 2, 3], [-1, -1, -1, -1]]))
    assert rows.tolist() == [[4, 5, 6, 7, 8], [0, 1, 2, 3, 4]]
    assert index.asked == [(2, 9, 1), (1, 9, 4)]


def test_effort_ends_where_every_item_is_looked_at():
    index = Lazy(100, 1, [])
    rows, scores = index.search(torch.zeros(1, 1), 100, torch.tensor([[99]]))
    assert rows[0, :99].tolist() == list(range(99))
    assert (rows[0, 99], scores[0, 99]) == (-1, -torch.inf)
    assert [effort for _, _, effort in index.asked] == [1, 4, 16, 20]


def test_rows_to_exclude_count_once():
    assert distinct(torch.tensor([[3, -1, 3, 9]]), 1, 5).sort().values.tolist() == [[-1, -1, -1, 3]]
    assert distinct(None, 2, 5).shape == (2, 0)


def test_equal_scores_are_ordered_by_row_and_missing_places_filled():
    rows, scores = ordered(torch.tensor([[5, -1, 2]]), torch.tensor([[1.0, -torch.inf, 1.0]]), 4)
    assert rows.tolist() == [[2, 5, -1, -1]]
    assert scores.tolist() == [[1, 1, -torch.inf, -torch.inf]]
