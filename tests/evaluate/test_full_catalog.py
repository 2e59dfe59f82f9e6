"""Rankings in blocks and batches equal a full sort, in bounded memory."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from shortlist.data import HeldOut, Interactions, Query, leave_last_out
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate import full_catalog
from shortlist.evaluate.full_catalog import ScoreBlock, batch_in_budget, evaluate_full, rank_model, top_k_full
from shortlist.evaluate.scores import score_slates
from shortlist.models.model import Model, ModelConfig, VectorModel

N_ITEMS = 50


def requests(count: int) -> Query:
    return Query.of([[] for _ in range(count)])


def from_matrix(scores: Tensor) -> ScoreBlock:
    return lambda query, items: scores[: len(query), items]


def dense(scores: Tensor, k: int, exclude: Tensor | None = None) -> Tensor:
    """The oracle: sort everything."""
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
def test_ranking_in_blocks_equals_a_full_sort(data: st.DataObject) -> None:
    count, n_items = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 14))
    cells = data.draw(st.lists(numbers, min_size=count * n_items, max_size=count * n_items))
    scores = torch.tensor(cells).reshape(count, n_items)
    hidden = data.draw(st.lists(st.integers(-1, n_items), min_size=count * 4, max_size=count * 4))
    exclude = torch.tensor(hidden).reshape(count, 4) if data.draw(st.booleans()) else None
    k, block = data.draw(st.integers(1, 16)), data.draw(st.integers(1, 15))
    items, _ = top_k_full(from_matrix(scores), requests(count), n_items, k, exclude, item_block=block)
    assert items.tolist() == dense(scores, k, exclude).tolist()


def test_scores_are_returned_unchanged() -> None:
    scores = torch.randn((5, 300), generator=torch.Generator().manual_seed(0))
    items, best = top_k_full(from_matrix(scores), requests(5), 300, 20, item_block=64)
    assert torch.equal(best, scores.gather(1, items))
    assert torch.equal(best, scores.topk(20, dim=1).values)


def test_equal_scores_are_ordered_by_row_across_blocks() -> None:
    items, _ = top_k_full(from_matrix(torch.zeros((1, 10))), requests(1), 10, 4, item_block=3)
    assert items.tolist() == [[0, 1, 2, 3]]


def test_places_past_the_last_item_are_empty() -> None:
    items, scores = top_k_full(from_matrix(torch.tensor([[1.0, 2.0]])), requests(1), 2, 4)
    assert items.tolist() == [[1, 0, -1, -1]]
    assert scores.tolist() == [[2.0, 1.0, -torch.inf, -torch.inf]]


def test_excluding_everything_leaves_no_items() -> None:
    items, scores = top_k_full(
        from_matrix(torch.ones((2, 5))), requests(2), 5, 3, torch.arange(5).repeat(2, 1)
    )
    assert (items == -1).all()
    assert (scores == -torch.inf).all()


def test_blocks_are_bounded_and_every_item_is_scored_once() -> None:
    widths: list[tuple[int, int]] = []

    def recorded(query: Query, items: slice) -> Tensor:
        widths.append((len(query), items.stop - items.start))
        return torch.zeros((len(query), items.stop - items.start))

    top_k_full(recorded, requests(3), 10_000, 5, item_block=1024)
    assert max(width for _, width in widths) == 1024
    assert sum(width for _, width in widths) == 10_000
    widths.clear()
    evaluate_full(recorded, held_out(), 50, (5,), user_batch=4, item_block=16)
    assert max(widths) == (4, 16)


def held_out():  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    events = Interactions.of(np.repeat(np.arange(20), 8), rng.integers(0, 50, 160), n_items=50)
    return leave_last_out(events).test


def test_evaluating_in_batches_equals_scoring_the_dense_rankings() -> None:
    test = held_out()
    matrix = torch.randn((20, 50), generator=torch.Generator().manual_seed(1))
    by_user: ScoreBlock = lambda query, items: matrix[query.user][:, items]  # noqa: E731
    reports: list[tuple[str, int, int]] = []
    found = evaluate_full(
        by_user,
        test,
        50,
        (5, 10),
        user_batch=6,
        item_block=7,
        width=2,
        progress=lambda *report: reports.append(report),
    )
    history = test.query(width=8).history
    expected = score_slates(dense(matrix[test.users], 10, history), test.relevant(), (5, 10))
    for name, values in expected.values.items():
        torch.testing.assert_close(found[name], values, equal_nan=True)
    assert reports[-1] == ("evaluate", 4, 4)


def test_repeats_allow_items_of_the_history() -> None:
    test = held_out()
    popular: ScoreBlock = lambda query, items: -torch.arange(items.start, items.stop).expand(len(query), -1)  # noqa: E731
    found = evaluate_full(popular, test, 50, (50,), repeats=True, popularity=torch.ones(50), n_users=20)
    assert found.means()["recall@50"] == 1
    assert found.means()["coverage@50"] == 1


def test_no_requests_give_no_scores() -> None:
    found = evaluate_full(from_matrix(torch.zeros((1, 50))), held_out().take(slice(0)), 50, (5,))
    assert len(found) == 0


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(DataError, match=r"expected scores of shape \[2, 5\], got \[1, 5\]"):
        top_k_full(lambda query, items: torch.zeros((1, 5)), requests(2), 5, 1)
    with pytest.raises(ConfigError, match="must be positive, got 0 and 8192"):
        top_k_full(from_matrix(torch.zeros((1, 5))), requests(1), 5, 0)


class Products(VectorModel):
    """The vector of a user is the sum of the vectors of the history."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(ModelConfig(N_ITEMS, max_history=3))
        table = torch.randint(-3, 4, (N_ITEMS, 4), generator=torch.Generator().manual_seed(seed)).float()
        self.table = torch.nn.Parameter(table)

    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        history = self.read(history)
        return (self.table[history.clamp(min=0)] * (history >= 0)[..., None]).sum(1)

    def vectors(self) -> Tensor:
        return self.table


class Numbers(Model):
    """Scores that depend on the user only; some are NaN."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__(ModelConfig(N_ITEMS))
        self.matrix = torch.randint(0, 9, (20, N_ITEMS), generator=torch.Generator().manual_seed(1)).float()
        self.widest = 0
        if broken:
            self.matrix[:, ::2] = torch.nan

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        assert user is not None
        assert not self.training
        self.widest = max(self.widest, len(user))
        return self.matrix[user]


def last_items() -> HeldOut:
    rng = np.random.default_rng(0)
    events = Interactions.of(np.repeat(np.arange(20), 8), rng.integers(0, N_ITEMS, 160), n_items=N_ITEMS)
    return leave_last_out(events).test


def slow(scores: Tensor, history: Tensor | None, k: int) -> list[list[int]]:
    """The oracle: sort everything, then leave out the history."""
    ranked = []
    for row, own in enumerate(scores.tolist()):
        seen = set() if history is None else set(history[row].tolist())
        order = sorted((item for item in range(len(own)) if own[item] == own[item]), key=lambda at: -own[at])
        best = [item for item in order if item not in seen][:k]
        ranked.append(best + [-1] * (k - len(best)))
    return ranked


@pytest.mark.parametrize(
    "model", [Products(), Numbers(), Numbers(broken=True)], ids=["vectors", "scores", "nan"]
)
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("batch", [1, 7, 256])
@torch.no_grad()
def test_model_ranking_equals_the_order_of_its_scores(model: Model, repeats: bool, batch: int) -> None:
    test = last_items()
    whole = test.query(width=8)
    ranked = rank_model(model, test, 12, repeats=repeats, batch=batch)
    scores = model.eval().scores(whole.history, whole.user)
    assert ranked.tolist() == slow(scores, None if repeats else whole.history, 12)


def test_whole_history_is_left_out_beyond_max_history() -> None:
    test, model = last_items(), Products()
    ranked = rank_model(model, test, N_ITEMS)
    assert ranked.shape == (len(test), N_ITEMS)
    for items, history in zip(ranked.tolist(), test.query(width=8).history.tolist(), strict=True):
        assert set(items) == (set(range(N_ITEMS)) - set(history)) | {-1}
        assert items == sorted(items, key=lambda item: item < 0)  # empty places come last


def test_batches_of_full_scores_stay_within_the_memory_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Numbers()
    expected = rank_model(model, last_items(), 5)
    assert model.widest == 20
    monkeypatch.setattr(full_catalog, "BUDGET", 3 * 16 * N_ITEMS)
    model.widest = 0
    assert torch.equal(rank_model(model, last_items(), 5), expected)
    assert model.widest == 3
    assert batch_in_budget(10**12) == 1


def test_places_beyond_the_catalogue_stay_empty_and_no_requests_give_no_rows() -> None:
    ranked = rank_model(Products(), last_items(), N_ITEMS + 3, repeats=True)
    assert (ranked[:, :N_ITEMS] >= 0).all()
    assert (ranked[:, N_ITEMS:] == -1).all()
    assert rank_model(Products(), last_items().take(slice(0)), 5).shape == (0, 5)


def test_model_runs_in_eval_mode_and_returns_to_training() -> None:
    model = Numbers().train()
    rank_model(model, last_items(), 5)
    assert model.training


def test_invalid_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be positive, got 0 and 256"):
        rank_model(Products(), last_items(), 0)
