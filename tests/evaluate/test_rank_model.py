"""A model's order of the whole catalogue is that of its scores, whatever is done to save memory."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shortlist.data import HeldOut, Interactions, leave_last_out
from shortlist.errors import ConfigError
from shortlist.evaluate import rank_model as ranked_file
from shortlist.evaluate.rank_model import affordable, rank_model
from shortlist.models.model import Model, ModelConfig, VectorModel

N_ITEMS = 50


class Products(VectorModel):
    """A user's vector is the sum of those met; without any, that of everybody."""

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
    """Scores that depend on the user alone; some are no numbers."""

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


def some_cases() -> HeldOut:
    rng = np.random.default_rng(0)
    events = Interactions.of(np.repeat(np.arange(20), 8), rng.integers(0, N_ITEMS, 160), n_items=N_ITEMS)
    return leave_last_out(events).test


def slow(scores: Tensor, history: Tensor | None, k: int) -> list[list[int]]:
    """Sort everything, then leave out what was met."""
    told = []
    for row, own in enumerate(scores.tolist()):
        met = set() if history is None else set(history[row].tolist())
        order = sorted((item for item in range(len(own)) if own[item] == own[item]), key=lambda at: -own[at])
        best = [item for item in order if item not in met][:k]
        told.append(best + [-1] * (k - len(best)))
    return told


@pytest.mark.parametrize(
    "model", [Products(), Numbers(), Numbers(broken=True)], ids=["vectors", "scores", "nan"]
)
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("batch", [1, 7, 256])
@torch.no_grad()
def test_items_come_in_the_order_of_the_scores(model: Model, repeats: bool, batch: int) -> None:
    cases = some_cases()
    whole = cases.query(width=8)
    ranked = rank_model(model, cases, 12, repeats=repeats, batch=batch)
    scores = model.eval().scores(whole.history, whole.user)
    assert ranked.tolist() == slow(scores, None if repeats else whole.history, 12)


def test_the_whole_history_is_left_out_though_the_model_remembers_less() -> None:
    cases, model = some_cases(), Products()
    ranked = rank_model(model, cases, N_ITEMS)
    assert ranked.shape == (len(cases), N_ITEMS)
    for items, met in zip(ranked.tolist(), cases.query(width=8).history.tolist(), strict=True):
        assert set(items) == (set(range(N_ITEMS)) - set(met)) | {-1}
        assert items == sorted(items, key=lambda item: item < 0)  # empty places come last


def test_scores_of_all_items_are_asked_for_as_few_users_as_memory_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = Numbers()
    expected = rank_model(model, some_cases(), 5)
    assert model.widest == 20
    monkeypatch.setattr(ranked_file, "BUDGET", 3 * 16 * N_ITEMS)
    model.widest = 0
    assert torch.equal(rank_model(model, some_cases(), 5), expected)
    assert model.widest == 3
    assert affordable(10**12) == 1


def test_more_places_than_items_stay_empty_and_no_cases_give_no_rows() -> None:
    ranked = rank_model(Products(), some_cases(), N_ITEMS + 3, repeats=True)
    assert (ranked[:, :N_ITEMS] >= 0).all()
    assert (ranked[:, N_ITEMS:] == -1).all()
    assert rank_model(Products(), some_cases().take(slice(0)), 5).shape == (0, 5)


def test_a_model_in_training_is_asked_in_eval_and_left_as_it_was() -> None:
    model = Numbers().train()
    rank_model(model, some_cases(), 5)
    assert model.training


def test_sizes_that_make_no_sense_are_named() -> None:
    with pytest.raises(ConfigError, match="must be positive, got 0 and 256"):
        rank_model(Products(), some_cases(), 0)
