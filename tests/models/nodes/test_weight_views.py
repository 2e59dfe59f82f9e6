"""Views of the weights: what changes the weights changes the next score."""

import copy
import pickle

import pytest
import torch

from tests.models.nodes.worlds import lively, rows_of, small


@pytest.fixture
def scored():
    """A scorer whose views were taken."""
    config = small(norm="batch", output="bn_prelu")
    scorer = lively(config).eval()
    history, rows = rows_of(config)
    with torch.no_grad():
        scorer.score(scorer.prepare(history), rows)
    return scorer, history, rows


@torch.no_grad()
def right(scorer, history, rows):
    return torch.allclose(scorer.score(scorer.prepare(history), rows), scorer.naive(history, rows), atol=1e-5)


@torch.no_grad()
def test_a_step_in_place_is_seen(scored):
    scorer, history, rows = scored
    before = scorer.naive(history, rows)
    for weight in scorer.parameters():
        weight.mul_(1.1)
    scorer.layers.norm[0].running_mean.add_(1)
    assert not torch.allclose(scorer.naive(history, rows), before)
    assert right(*scored)


@torch.no_grad()
def test_weights_in_another_place_are_seen(scored):
    scorer, history, rows = scored
    other = lively(scorer.config, seed=9).eval()
    scorer.load_state_dict(other.state_dict(), assign=True)
    assert right(scorer, history, rows)
    scorer.nodes = torch.nn.Embedding.from_pretrained(torch.randn(40, 8))
    scorer.layers.first.weight = torch.nn.Parameter(torch.randn_like(scorer.layers.first.weight))
    assert right(scorer, history, rows)
    assert right(scorer.double().float(), history, rows)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda scorer: pickle.loads(pickle.dumps(scorer))])  # noqa: S301
def test_a_copy_looks_at_its_own_weights(scored, again):
    scorer, history, rows = scored
    twin = again(scorer)
    assert twin._views is None
    with torch.no_grad():
        twin.unit1.weight.add_(1)
    assert right(scorer, history, rows)
    assert right(twin, history, rows)
