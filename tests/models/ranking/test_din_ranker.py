"""The DIN ranker: every pair has the score of the formula, for all paddings, batches and blocks."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ArtifactError, ConfigError
from shortlist.models.ranking import din_ranker
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.testing.models import (
    TOLERANCE,
    check_batch_is_ignored,
    check_invalid_input_has_scores,
    check_only_max_history_counts,
    check_padding_is_ignored,
)

SMALL = {"max_history": 7, "width": 6, "attention": (5, 4), "hidden": (9, 7)}
KINDS = [{}, {"inputs": "din4"}, {"windows": (4, 2, 1)}, {"inputs": "din4", "windows": (5, 2)}]
HISTORIES = [[3, 1, 4, 1, 5, 9, 2], [7, 7, 8], [0], []]


def ranker(**choices) -> DINRanker:
    torch.manual_seed(0)
    model = DINRanker(DINRankerConfig(20, **(SMALL | choices))).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) / 2)
    return model


def padded(histories=HISTORIES, width: int = 7) -> torch.Tensor:
    return torch.tensor([[-1] * (width - len(one)) + one for one in histories])


def naive(model: DINRanker, history: list[int], row: int) -> torch.Tensor:
    """One pair by the formula."""
    config, table = model.config, model.items.weight
    past = [one for one in history if 0 <= one < config.n_items][-config.max_history :]
    e = table[row]
    windows = config.windows or (config.max_history,)
    pooled = [torch.zeros_like(e) for _ in windows]
    for place, one in enumerate(past, start=config.max_history - len(past)):
        a = table[one]
        inputs = [a, a * e, e] if config.inputs == "din3" else [e, a, e - a, e * a]
        x = model.first(torch.cat(inputs))
        for layer, activation in zip(model.unit, model.unit_activations, strict=True):
            x = layer(F.prelu(x, activation.slope))
        window = next(w for w in range(len(windows)) if place < sum(windows[: w + 1]))
        pooled[window] = pooled[window] + x * a
    x = torch.cat([*pooled, e])
    for layer, activation in zip(model.layers[:-1], model.activations, strict=True):
        x = F.prelu(layer(x), activation.slope)
    return model.layers[-1](x)[0]


@pytest.mark.parametrize("choices", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_every_pair_has_the_score_of_the_formula(choices, training):
    model = ranker(**choices).double()
    rows = torch.tensor([[0, 19, 3, 3], [5, 6, 7, 8], [1, 0, 2, 4], [9, 9, 9, 10]])
    with torch.set_grad_enabled(training):
        scores = model.score_rows(padded(), rows)
    expected = [
        [naive(model, one, int(row)).detach() for row in own]
        for one, own in zip(HISTORIES, rows, strict=True)
    ]
    assert torch.allclose(scores, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


def test_gradients_are_those_of_the_formula():
    model, rows = ranker().double(), torch.tensor([[0, 5, 1]])
    model.score_rows(padded(HISTORIES[:1]), rows).sum().backward()
    fast = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()
    sum(naive(model, HISTORIES[0], int(row)) for row in rows[0]).backward()
    for name, weight in model.named_parameters():
        assert torch.allclose(fast[name], weight.grad, rtol=0, atol=1e-12), name


def test_number_of_parameters_is_that_of_the_paper():
    model = DINRanker(DINRankerConfig(3706))
    slopes = sum(activation.slope.numel() for activation in (*model.unit_activations, *model.activations))
    attention = (*model.first.parameters(), *model.unit.parameters())
    assert sum(one.numel() for one in attention) == 19_553
    assert sum(one.numel() for one in model.layers.parameters()) == 54_761
    assert model.items.weight.numel() == 3707 * 96 == 355_872
    assert slopes == 4
    assert sum(one.numel() for one in model.parameters()) == 430_186 + slopes
    four = DINRanker(DINRankerConfig(3706, inputs="din4"))
    assert sum(one.numel() for one in four.parameters()) == 430_190 + 96 * 64


@pytest.mark.parametrize("choices", KINDS)
@torch.no_grad()
def test_scores_of_all_items_are_those_of_all_rows(choices):
    model = ranker(**choices)
    rows = torch.arange(20).expand(4, -1)
    assert torch.equal(model.scores(padded()), model.score_rows(padded(), rows))


@pytest.mark.parametrize("cells", [1, 100, 1000, 1 << 20])
@torch.no_grad()
def test_blocks_have_the_scores_of_the_whole(cells, monkeypatch):
    model = ranker().double()
    whole = model.score_rows(padded(), torch.arange(20).expand(4, -1))
    monkeypatch.setattr(din_ranker, "CPU_CELLS", cells)
    parts = model.score_rows(padded(), torch.arange(20).expand(4, -1))
    assert torch.allclose(parts, whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("choices", KINDS)
def test_scores_do_not_depend_on_padding_batch_or_unknown_items(choices):
    model, users = ranker(**choices), torch.full((4,), -1)
    check_padding_is_ignored(model, HISTORIES, users, TOLERANCE)
    check_batch_is_ignored(model, HISTORIES, users, TOLERANCE)
    check_only_max_history_counts(model)
    check_invalid_input_has_scores(model, 3, TOLERANCE)


@torch.no_grad()
def test_scores_do_not_depend_on_other_candidates():
    model, rows = ranker(), torch.tensor([[4, 9, 2, 0, 11]])
    scores = model.score_rows(padded(HISTORIES[:1]), rows)
    backwards = model.score_rows(padded(HISTORIES[:1]), rows.flip(1))
    alone = torch.cat([model.score_rows(padded(HISTORIES[:1]), rows[:, i : i + 1]) for i in range(5)], dim=1)
    assert torch.allclose(backwards.flip(1), scores, atol=1e-6)
    assert torch.allclose(alone, scores, atol=1e-6)


@torch.no_grad()
def test_candidates_outside_the_catalogue_have_the_same_score():
    """Equal up to rounding: a matrix product may sum equal columns in different orders."""
    model = ranker()
    scores = model.score_rows(padded(HISTORIES[:1]), torch.tensor([[20, -1, 2**40]]))
    assert bool(torch.isfinite(scores).all())
    torch.testing.assert_close(scores, scores[:, :1].expand_as(scores))
    assert model.score_rows(padded(HISTORIES[:1]), torch.empty(1, 0, dtype=torch.int64)).shape == (1, 0)


@pytest.mark.parametrize("training", [True, False])
def test_empty_catalogue_has_no_scores(training):
    model = DINRanker(DINRankerConfig(0, **SMALL))
    with torch.set_grad_enabled(training):
        assert model.scores(torch.tensor([[0, -1]])).shape == (1, 0)


def test_padding_embedding_gets_no_gradient():
    model = DINRanker(DINRankerConfig(20, **SMALL))
    model.score_rows(padded(), torch.tensor([[1, 20]] * 4)).sum().backward()
    assert bool((model.items.weight.grad[-1] == 0).all())
    assert bool((model.items.weight[-1] == 0).all())
    assert bool((model.items.weight.grad[1] != 0).any())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_autocast_returns_float32():
    model, rows, history = ranker().cuda(), torch.arange(20).expand(4, -1).cuda(), padded().cuda()
    plain = model.score_rows(history, rows)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        scores = model.score_rows(history, rows)
    assert scores.dtype == torch.float32
    assert torch.allclose(scores, plain, atol=0.05 * float(plain.detach().abs().max()))


@pytest.mark.parametrize("choices", KINDS)
@torch.no_grad()
def test_scores_are_the_same_when_rebuilt(choices):
    model = ranker(**choices)
    again = DINRanker.build(model.settings(), model.state_dict())
    assert again.config == model.config
    assert torch.equal(again.scores(padded()), model.scores(padded()))


def test_weights_that_do_not_fit_are_refused():
    model = ranker()
    with pytest.raises(ArtifactError, match="DINRanker: settings and weights do not fit"):
        DINRanker.build(model.settings() | {"width": 7}, model.state_dict())


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"inputs": "din5"}, "inputs must be one of din3, din4, got 'din5'"),
        ({"windows": (3, 3)}, "windows must sum to max_history, 7, got 6"),
        ({"width": 0}, "width must lie between 1 and"),
        ({"attention": ()}, "attention must have at least one layer"),
        ({"hidden": (0,)}, "hidden must lie between 1 and"),
    ],
)
def test_impossible_sizes_are_refused(choices, message):
    with pytest.raises(ConfigError, match=message):
        DINRankerConfig(20, **(SMALL | choices))
