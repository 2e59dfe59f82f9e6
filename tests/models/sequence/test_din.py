"""DIN over the catalogue: every item gets the score of the naive formula, in whatever parts it is asked for."""

import pytest
import torch

from shortlist.models.sequence import din
from shortlist.models.sequence.din import DIN, DINConfig

SIZES = {"width": 6, "hidden": 5, "layers": (9, 7), "windows": (4, 2, 1)}


@pytest.fixture(scope="module")
def model() -> DIN:
    torch.manual_seed(0)
    made = DIN(DINConfig(20, max_history=7, **SIZES)).eval()
    torch.nn.init.normal_(made.scorer.nodes.weight)
    return made


@pytest.fixture(scope="module")
def histories() -> torch.Tensor:
    """One full, one short, one with one item, one without any."""
    return torch.tensor([[3, 1, 4, 1, 5, 9, 2], [-1] * 4 + [7, 7, 8], [-1] * 6 + [0], [-1] * 7])


def naive(model, histories):
    rows = torch.arange(20).expand(len(histories), 20)
    return model.scorer.naive(histories, rows)


@torch.no_grad()
def test_scores_are_those_of_the_naive_formula(model, histories):
    assert torch.allclose(model.scores(histories), naive(model, histories), atol=1e-5)


def test_scores_with_gradients_are_the_same(model, histories):
    told = model.scores(histories)
    assert told.requires_grad
    assert torch.allclose(told, naive(model, histories), atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("cells", [1, 7, 16, 80, 1 << 18])
def test_items_in_parts_have_the_same_scores(model, histories, cells, monkeypatch):
    whole, asked, score_all = model.scores(histories), [], model.scorer.score_all
    monkeypatch.setattr(din, "CELLS", cells)
    monkeypatch.setattr(
        model.scorer, "score_all", lambda state, rows: asked.append(len(rows)) or score_all(state, rows)
    )
    assert torch.equal(model.scores(histories), whole)
    assert sum(asked) == 20
    assert max(asked) * len(histories) <= max(cells, len(histories))  # of at least one item


@torch.no_grad()
def test_only_the_windows_are_remembered(model, histories):
    longer = torch.cat([torch.full((4, 5), 11), histories], dim=1)
    assert torch.equal(model.scores(longer)[:1], model.scores(histories)[:1])


@torch.no_grad()
def test_what_is_no_item_takes_no_place_in_a_window(model, histories):
    strewn = torch.tensor([[3, 1, -1, 4, 99, 1, 5, -1, 9, 2]])
    assert torch.equal(model.scores(strewn), model.scores(histories[:1]))


def test_the_seed_of_torch_decides_fresh_weights():
    def fresh(seed):
        torch.manual_seed(seed)
        return DIN(DINConfig(20, max_history=7, **SIZES)).state_dict()

    one, two, other = fresh(0), fresh(0), fresh(1)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["scorer.nodes.weight"], other["scorer.nodes.weight"])


@torch.no_grad()
def test_a_catalogue_without_items_has_no_scores():
    model = DIN(DINConfig(0, max_history=7, **SIZES)).eval()
    assert model.scores(torch.tensor([[0, -1]])).shape == (1, 0)


@torch.no_grad()
def test_rows_of_ones_own_get_the_scores_they_have_among_all():
    torch.manual_seed(0)
    model = DIN(DINConfig(30, max_history=6, width=8, hidden=4, layers=(8,), windows=(3, 2, 1))).eval()
    history, rows = torch.tensor([[1, 2, 3], [-1, -1, 9]]), torch.tensor([[5, 0, 29], [7, 7, 1]])
    assert torch.allclose(model.score_rows(history, rows), model.scores(history).gather(1, rows), atol=1e-5)
