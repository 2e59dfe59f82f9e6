"""Node scorers from a configuration, with initial or stored weights."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Generator, Tensor

from shortlist.errors import ArtifactError
from shortlist.models.nodes.attention import AttentionScorer
from shortlist.models.nodes.config import ScorerConfig
from shortlist.models.nodes.linear import LinearScorer
from shortlist.models.nodes.mlp import MLPScorer
from shortlist.models.nodes.scorer import NodeScorer

KINDS: dict[str, Callable[[ScorerConfig], NodeScorer]] = {
    "linear": LinearScorer,
    "mlp": MLPScorer,
    "attention": AttentionScorer,
}


def make_scorer(config: ScorerConfig, seed: int) -> NodeScorer:
    """A scorer with initial weights, in training mode; the seed determines the weights."""
    scorer = _empty(config)
    scorer.reset_parameters(Generator("cpu").manual_seed(seed))
    return scorer


def load_scorer(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NodeScorer:
    """A scorer from its settings and weights, in eval mode."""
    config = ScorerConfig.of(settings)
    _check_weights(config, tensors)
    scorer = _empty(config)
    scorer.load_state_dict(dict(tensors))
    return scorer.eval()


def load_weights(scorer: NodeScorer, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights of another scorer of the same configuration."""
    _check_weights(scorer.config, tensors)
    scorer.load_state_dict(dict(tensors))


def _check_weights(config: ScorerConfig, tensors: Mapping[str, Tensor]) -> None:
    """Refuse weights that do not match the configuration (before memory is allocated) or are not finite."""
    with torch.device("meta"):
        expected = KINDS[config.kind](config).state_dict()
    if other := sorted(set(expected) ^ set(tensors)):
        raise ArtifactError(
            f"the weights do not fit the settings of the node scorer: {other[0]} is not in both"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            sizes = f"expected {list(expected[name].shape)}, got {list(tensor.shape)}"
            raise ArtifactError(f"the weights do not fit the settings of the node scorer: {name}: {sizes}")
        if not torch.isfinite(tensor).all():
            raise ArtifactError(f"the weights of the node scorer are not finite: {name}; train it again")


@torch.no_grad()
def warmup(layers: int = 3) -> None:
    """Compile the CPU kernel for scorers of this many hidden layers now, not at the first query."""
    scorer = make_scorer(
        ScorerConfig(1, width=1, hidden=1, layers=(1,) * layers, windows=(1,)), seed=0
    ).eval()
    row = torch.zeros(1, 1, dtype=torch.int64)
    scorer.score(scorer.prepare(row), row)


def _empty(config: ScorerConfig) -> NodeScorer:
    """A scorer with uninitialised weights on the default device; the global generator is not used."""
    with torch.device("meta"):
        scorer = KINDS[config.kind](config)
    return scorer.to_empty(device=torch.get_default_device())
