"""The MLP ranker: each pair has the score of the formula; padding and unknown items are ignored."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig

CONFIG = MLPRankerConfig(10, 3, values=(4, 2), n_tags=5, width=6, value_width=2, hidden=(8, 4), max_history=5)


def made() -> MLPRanker:
    torch.manual_seed(0)
    model = MLPRanker(CONFIG).eval()
    model.fit_scale(torch.randn(50, 3) * 2 + 1)
    return model


def inputs(count: int = 2, width: int = 4):
    generator = torch.Generator().manual_seed(1)

    def rows(low, high, *more):
        return torch.randint(low, high, (count, width, *more), generator=generator)

    codes = torch.stack([rows(0, 4), rows(0, 2)], dim=-1)
    return rows(0, 10), torch.randn(count, width, 3, generator=generator), codes, rows(-1, 5, 3)


def naive(model, history, row, features, codes, tags):
    table = model.items.weight
    past = [table[one] for one in history if 0 <= one < 10][-5:]
    mean = torch.stack(past).mean(0) if past else torch.zeros(6)
    own = [model.tags.weight[tag + 1] for tag in tags if tag >= 0]
    mean_tag = torch.stack(own).mean(0) if own else torch.zeros(2)
    values = [table.weight[code] for table, code in zip(model.values, codes, strict=True)]
    return model.layers(torch.cat([features, table[row], mean, table[row] * mean, *values, mean_tag]))


@torch.no_grad()
def test_every_pair_has_the_score_of_the_formula():
    model, (rows, features, codes, tags) = made(), inputs()
    histories = torch.tensor([[-1, -1, 3, 4], [-1, -1, -1, -1]])
    scores = model(histories, rows, features, codes, tags)
    for b in range(2):
        for k in range(4):
            pair = (int(rows[b, k]), features[b, k], codes[b, k].tolist(), tags[b, k].tolist())
            assert torch.allclose(scores[b, k], naive(model, histories[b].tolist(), *pair), atol=1e-6)


@torch.no_grad()
def test_padding_unknown_and_old_items_are_ignored():
    model, parts = made(), inputs(1)
    bare = model(torch.tensor([[1, 2, 3, 4, 5]]), *parts)
    assert torch.equal(model(torch.tensor([[-1, -1, 1, 2, 3, 4, 5]]), *parts), bare)
    assert torch.equal(model(torch.tensor([[9, 9, 1, 2, 3, 4, 5]]), *parts), bare)
    none = model(torch.empty(1, 0, dtype=torch.int64), *parts)
    assert torch.equal(model(torch.tensor([[-1, 10, 2**40]]), *parts), none)


def test_padding_embeddings_get_no_gradient():
    model, (rows, features, codes, tags) = made(), inputs()
    rows[0, 0], tags[0] = 10, -1
    model(torch.tensor([[-1, 3], [-1, -1]]), rows, features, codes, tags).sum().backward()
    assert bool((model.items.weight.grad[-1] == 0).all())
    assert bool((model.tags.weight.grad[0] == 0).all())
    assert bool((model.items.weight.grad[3] != 0).any())


@torch.no_grad()
def test_features_are_standardised_by_training_features():
    model = MLPRanker(CONFIG)
    sample = torch.randn(50, 3) * 2 + 1
    model.fit_scale(sample)
    assert torch.allclose(model.layers.mean[:3], sample.mean(0))
    assert torch.allclose(model.layers.scale[:3], sample.std(0))
    assert bool((model.layers.scale[3:] == 1).all())
    before = model.layers.mean.clone()
    model.fit_scale(sample[:1])
    assert torch.equal(model.layers.mean, before)


@torch.no_grad()
def test_scores_are_finite_without_columns_and_items():
    model = MLPRanker(MLPRankerConfig(0, 2)).eval()
    empty = torch.empty(1, 3, 0, dtype=torch.int64)
    scores = model(
        torch.tensor([[0]]), torch.zeros(1, 3, dtype=torch.int64), torch.zeros(1, 3, 2), empty, empty
    )
    assert bool(torch.isfinite(scores).all())


@torch.no_grad()
def test_scores_are_the_same_when_rebuilt():
    model, parts = made(), inputs()
    again = MLPRanker.build({**model.settings(), "hidden": [8, 4]}, model.state_dict())
    history = torch.tensor([[1, 2], [-1, 3]])
    assert torch.equal(again(history, *parts), model(history, *parts))
    with pytest.raises(ArtifactError, match="mlp-ranker: settings and weights do not fit"):
        MLPRanker.build(model.settings() | {"width": 3}, model.state_dict())
    with pytest.raises(ArtifactError, match="mlp-ranker: settings and weights do not fit"):
        MLPRanker.build({"depth": 3}, model.state_dict())
