"""Weight views: a change of the weights changes the next score."""

import copy
import pickle

import pytest
import torch

from tests.models.nodes.worlds import perturbed, rows_of, small


@pytest.fixture
def scored():
    """A scorer whose views exist."""
    config = small(norm="batch", output="bn_prelu")
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    with torch.no_grad():
        scorer.score(scorer.prepare(history), rows)
    return scorer, history, rows


@torch.no_grad()
def equals_naive(scorer, history, rows):
    return torch.allclose(scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows), atol=1e-5)


@torch.no_grad()
def test_in_place_updates_are_used(scored):
    scorer, history, rows = scored
    before = scorer.naive(history, rows)
    for weight in scorer.parameters():
        weight.mul_(1.1)
    scorer.layers.norm[0].running_mean.add_(1)
    assert not torch.allclose(scorer.naive(history, rows), before)
    assert equals_naive(*scored)


@torch.no_grad()
def test_replaced_weights_are_used(scored):
    scorer, history, rows = scored
    other = perturbed(scorer.config, seed=9).eval()
    scorer.load_state_dict(other.state_dict(), assign=True)
    assert equals_naive(scorer, history, rows)
    scorer.nodes = torch.nn.Embedding.from_pretrained(torch.randn(40, 8))
    scorer.layers.first.weight = torch.nn.Parameter(torch.randn_like(scorer.layers.first.weight))
    assert equals_naive(scorer, history, rows)
    assert equals_naive(scorer.double().float(), history, rows)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda scorer: pickle.loads(pickle.dumps(scorer))])  # noqa: S301
def test_a_copy_uses_its_own_weights(scored, again):
    scorer, history, rows = scored
    twin = again(scorer)
    assert twin._views is None
    with torch.no_grad():
        twin.unit1.weight.add_(1)
    assert equals_naive(scorer, history, rows)
    assert equals_naive(twin, history, rows)
