"""DIN over the catalogue: every item has the score of the naive formula, in blocks of any size."""

import pytest
import torch

from shortlist.models.sequence import din
from shortlist.models.sequence.din import DIN, DINConfig

SIZES = {"width": 6, "hidden": 5, "layers": (9, 7), "windows": (4, 2, 1)}


@pytest.fixture(scope="module")
def model() -> DIN:
    torch.manual_seed(0)
    new = DIN(DINConfig(20, max_history=7, **SIZES)).eval()
    torch.nn.init.normal_(new.scorer.nodes.weight)
    return new


@pytest.fixture(scope="module")
def histories() -> torch.Tensor:
    """A full, a short, a one-item and an empty history."""
    return torch.tensor([[3, 1, 4, 1, 5, 9, 2], [-1] * 4 + [7, 7, 8], [-1] * 6 + [0], [-1] * 7])


def naive(model, histories):
    rows = torch.arange(20).expand(len(histories), 20)
    return model.scorer.naive(histories, rows)


@torch.no_grad()
def test_scores_equal_the_naive_formula(model, histories):
    assert torch.allclose(model.scores(histories), naive(model, histories), atol=1e-5)


def test_scores_with_gradients_are_the_same(model, histories):
    scores = model.scores(histories)
    assert scores.requires_grad
    assert torch.allclose(scores, naive(model, histories), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("cells", [1, 7, 16, 80, 1 << 18])
def test_block_size_does_not_change_scores(model, histories, cells, monkeypatch):
    whole, sizes, score_all = model.scores(histories), [], model.scorer.score_all
    monkeypatch.setattr(din, "CELLS", cells)
    monkeypatch.setattr(
        model.scorer, "score_all", lambda state, rows: sizes.append(len(rows)) or score_all(state, rows)
    )
    torch.testing.assert_close(model.scores(histories), whole, rtol=1e-5, atol=1e-6)
    assert sum(sizes) == 20
    assert max(sizes) * len(histories) <= max(cells, len(histories))  # a block has at least one item


@torch.no_grad()
def test_only_the_windows_are_read(model, histories):
    longer = torch.cat([torch.full((4, 5), 11), histories], dim=1)
    assert torch.equal(model.scores(longer)[:1], model.scores(histories)[:1])


@torch.no_grad()
def test_unknown_rows_take_no_place_in_a_window(model, histories):
    mixed = torch.tensor([[3, 1, -1, 4, 99, 1, 5, -1, 9, 2]])
    assert torch.equal(model.scores(mixed), model.scores(histories[:1]))


def test_torch_seed_determines_initial_weights():
    def initial(seed):
        torch.manual_seed(seed)
        return DIN(DINConfig(20, max_history=7, **SIZES)).state_dict()

    one, two, other = initial(0), initial(0), initial(1)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["scorer.nodes.weight"], other["scorer.nodes.weight"])


@torch.no_grad()
def test_empty_catalogue_has_no_scores():
    model = DIN(DINConfig(0, max_history=7, **SIZES)).eval()
    assert model.scores(torch.tensor([[0, -1]])).shape == (1, 0)


@torch.no_grad()
def test_scores_of_given_rows_equal_those_among_all_items():
    torch.manual_seed(0)
    model = DIN(DINConfig(30, max_history=6, width=8, hidden=4, layers=(8,), windows=(3, 2, 1))).eval()
    history, rows = torch.tensor([[1, 2, 3], [-1, -1, 9]]), torch.tensor([[5, 0, 29], [7, 7, 1]])
    assert torch.allclose(model.score_rows(history, rows), model.scores(history).gather(1, rows), atol=1e-5)
