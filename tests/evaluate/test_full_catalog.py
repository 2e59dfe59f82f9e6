"""Streaming over the catalogue finds what sorting all of it finds, in bounded memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shortlist.data import Interactions, Query, leave_last_out
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.full_catalog import ScoreBlock, evaluate_full, top_k_full
from shortlist.evaluate.scores import score_slates


def asked(count: int) -> Query:
    return Query.of([[] for _ in range(count)])


def from_matrix(scores: Tensor) -> ScoreBlock:
    return lambda query, items: scores[: len(query), items]


def dense(scores: Tensor, k: int, exclude: Tensor | None = None) -> Tensor:
    """The obvious way: sort everything."""
    low = torch.finfo(torch.float32).min
    whole = torch.nan_to_num(scores.float(), nan=low, posinf=low, neginf=low)
    for row, items in enumerate([] if exclude is None else exclude.tolist()):
        for item in items:
            if 0 <= item < scores.shape[1]:
                whole[row, item] = -torch.inf
    values, order = whole.sort(dim=1, descending=True, stable=True)
    order = order.masked_fill(values == -torch.inf, -1)
    return torch.nn.functional.pad(order, (0, max(0, k - order.shape[1])), value=-1)[:, :k]


numbers = st.sampled_from(
    [0.0, -0.0, 1.0, 1.0, -1.5, 2.25, 1e-40, float("nan"), float("inf"), float("-inf"), -3e38]
)


@settings(deadline=None)
@given(st.data())
def test_blocks_find_what_a_full_sort_finds(data: st.DataObject) -> None:
    count, n_items = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 14))
    cells = data.draw(st.lists(numbers, min_size=count * n_items, max_size=count * n_items))
    scores = torch.tensor(cells).reshape(count, n_items)
    hidden = data.draw(st.lists(st.integers(-1, n_items), min_size=count * 4, max_size=count * 4))
    exclude = torch.tensor(hidden).reshape(count, 4) if data.draw(st.booleans()) else None
    k, block = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 15))
    items, _ = top_k_full(from_matrix(scores), asked(count), n_items, k, exclude, item_block=block)
    assert items.tolist() == dense(scores, k, exclude).tolist()


def test_scores_come_back_as_they_were() -> None:
    scores = torch.randn((5, 300), generator=torch.Generator().manual_seed(0))
    items, best = top_k_full(from_matrix(scores), asked(5), 300, 20, item_block=64)
    assert torch.equal(best, scores.gather(1, items))
    assert torch.equal(best, scores.topk(20, dim=1).values)


def test_equal_scores_go_to_the_lower_row_across_blocks() -> None:
    items, _ = top_k_full(from_matrix(torch.zeros((1, 10))), asked(1), 10, 4, item_block=3)
    assert items.tolist() == [[0, 1, 2, 3]]


def test_places_past_the_last_item_are_empty() -> None:
    items, scores = top_k_full(from_matrix(torch.tensor([[1.0, 2.0]])), asked(1), 2, 4)
    assert items.tolist() == [[1, 0, -1, -1]]
    assert scores.tolist() == [[2.0, 1.0, -torch.inf, -torch.inf]]


def test_everything_excluded_leaves_nothing() -> None:
    items, scores = top_k_full(from_matrix(torch.ones((2, 5))), asked(2), 5, 3, torch.arange(5).repeat(2, 1))
    assert (items == -1).all()
    assert (scores == -torch.inf).all()


def test_no_block_is_wider_than_asked_and_all_items_are_scored_once() -> None:
    widths: list[tuple[int, int]] = []

    def watched(query: Query, items: slice) -> Tensor:
        widths.append((len(query), items.stop - items.start))
        return torch.zeros((len(query), items.stop - items.start))

    top_k_full(watched, asked(3), 10_000, 5, item_block=1024)
    assert max(width for _, width in widths) == 1024
    assert sum(width for _, width in widths) == 10_000
    widths.clear()
    evaluate_full(watched, cases(), 50, (5,), user_batch=4, item_block=16)
    assert max(widths) == (4, 16)


def cases():  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    events = Interactions.of(np.repeat(np.arange(20), 8), rng.integers(0, 50, 160), n_items=50)
    return leave_last_out(events).test


def test_evaluating_in_batches_equals_scoring_the_dense_rankings() -> None:
    test = cases()
    matrix = torch.randn((20, 50), generator=torch.Generator().manual_seed(1))
    by_user: ScoreBlock = lambda query, items: matrix[query.user][:, items]  # noqa: E731
    told: list[tuple[str, int, int]] = []
    found = evaluate_full(
        by_user,
        test,
        50,
        (5, 10),
        user_batch=6,
        item_block=7,
        width=2,
        progress=lambda *news: told.append(news),
    )
    history = test.query(width=8).history
    expected = score_slates(dense(matrix[test.users], 10, history), test.relevant(), (5, 10))
    for name, values in expected.values.items():
        torch.testing.assert_close(found[name], values, equal_nan=True)
    assert told[-1] == ("evaluate", 4, 4)


def test_repeats_may_be_welcome() -> None:
    test = cases()
    popular: ScoreBlock = lambda query, items: -torch.arange(items.start, items.stop).expand(len(query), -1)  # noqa: E731
    found = evaluate_full(popular, test, 50, (50,), repeats=True, popularity=torch.ones(50), n_users=20)
    assert found.means()["recall@50"] == 1
    assert found.means()["coverage@50"] == 1


def test_no_cases_give_no_scores() -> None:
    found = evaluate_full(from_matrix(torch.zeros((1, 50))), cases().take(slice(0)), 50, (5,))
    assert len(found) == 0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(DataError, match=r"expected scores of shape \[2, 5\], got \[1, 5\]"):
        top_k_full(lambda query, items: torch.zeros((1, 5)), asked(2), 5, 1)
    with pytest.raises(ConfigError, match="must be positive, got 0 and 8192"):
        top_k_full(from_matrix(torch.zeros((1, 5))), asked(1), 5, 0)
