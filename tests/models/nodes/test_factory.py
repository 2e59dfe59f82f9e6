"""Scorers from a seed and from stored weights."""

import json

import pytest
import torch

from shortlist.errors import ArtifactError, ConfigError
from shortlist.models.nodes import load_scorer, make_scorer
from tests.models.nodes.worlds import OPTIONS, perturbed, rows_of, small


def test_the_seed_determines_the_weights():
    torch.manual_seed(1)
    one, state = make_scorer(small(), 5).state_dict(), torch.get_rng_state()
    two, other = make_scorer(small(), 5).state_dict(), make_scorer(small(), 6).state_dict()
    assert torch.equal(torch.get_rng_state(), state)  # the global generator is not used
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["nodes.weight"], other["nodes.weight"])


@torch.no_grad()
@pytest.mark.parametrize("options", [{"kind": "linear"}, {"kind": "mlp"}, *OPTIONS[::2]])
def test_a_loaded_scorer_has_the_same_scores(options):
    config = small(**options)
    scorer = perturbed(config).eval()
    history, rows = rows_of(config)
    back = load_scorer(json.loads(json.dumps(scorer.settings())), scorer.state_dict())
    assert not back.training
    assert torch.equal(back(history, rows), scorer(history, rows))


def test_weights_of_another_scorer_are_refused():
    tensors = make_scorer(small(), 0).state_dict()
    with pytest.raises(ArtifactError, match="do not fit the settings"):
        load_scorer(small(width=9).settings(), tensors)
    with pytest.raises(ArtifactError, match="do not fit the settings"):
        load_scorer(small(kind="mlp").settings(), tensors)
    with pytest.raises(ConfigError, match="one of attention, mlp, linear"):
        load_scorer(small().settings() | {"kind": "transformer"}, tensors)


def test_a_forged_size_is_refused_before_memory_is_allocated():
    scorer = make_scorer(small(), 0)
    with pytest.raises(ArtifactError, match=r"nodes.weight: expected \[999999999, \d+\], got"):
        load_scorer({**scorer.settings(), "n_rows": 999_999_999}, scorer.state_dict())
    with pytest.raises(ArtifactError, match=r"nodes.weight: expected \[\d+, 8192\], got"):
        load_scorer({**scorer.settings(), "width": 8192}, scorer.state_dict())
    with pytest.raises(ConfigError, match="width must lie between 1 and 8192, got 999999999"):
        load_scorer({**scorer.settings(), "width": 999_999_999}, scorer.state_dict())
    with pytest.raises(ConfigError, match="dropout must be a number, got 'x'"):
        load_scorer({**scorer.settings(), "dropout": "x"}, scorer.state_dict())


def test_non_finite_weights_are_refused():
    scorer = make_scorer(small(), 0)
    weights = {name: weight.clone() for name, weight in scorer.state_dict().items()}
    weights["nodes.weight"][3, 1] = float("nan")
    with pytest.raises(ArtifactError, match=r"nodes.weight; train it again"):
        load_scorer(scorer.settings(), weights)
