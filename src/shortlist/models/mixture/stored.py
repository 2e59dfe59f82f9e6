"""A mixture of two-tower experts as tensors, for an artifact."""

from collections.abc import Mapping

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.models.mixture.gate import Gate
from shortlist.models.mixture.pool_mixture import PoolMixture
from shortlist.models.mixture.two_tower_expert import TwoTowerExperts
from shortlist.models.stored_weights import with_weights

PREFIX = "mixture."
ABOUT = "mixture.about"  # plain values, as JSON bytes


def packed_mixture(model: PoolMixture) -> dict[str, Tensor]:
    """A mixture as tensors; frozen experts have no stored form."""
    if not isinstance(model.experts, TwoTowerExperts):
        raise ConfigError(
            f"mixture: only two-tower experts can be stored, got {type(model.experts).__name__}"
        )
    about = {
        "experts": model.experts.settings(),
        "gate": model.gate.settings(),
        "outcome": model.outcome,
        "learn_sigma": model.learn_sigma,
        "sigmas": len(model.log_sigma),
    }
    weights = {name: one.detach().cpu() for name, one in model.state_dict().items()}
    return {**with_prefix(PREFIX, weights), ABOUT: json_to_tensor(about)}


def unpacked_mixture(tensors: Mapping[str, Tensor]) -> PoolMixture:
    """The mixture from its tensors, in eval mode."""
    about = json_from_tensor(tensors, ABOUT, "mixture")
    stored = without_prefix(PREFIX, {name: one for name, one in tensors.items() if name != ABOUT})
    try:
        model = with_weights(lambda: _empty(about), stored)
    except (TypeError, KeyError, ValueError, RuntimeError, ConfigError, DataError) as error:
        reason = " ".join(str(error).split())
        raise ArtifactError(
            f"mixture: settings and weights do not fit ({reason}); train the bundle again"
        ) from error
    if model.gate.hard and not bool(model.gate.pools.any(1).all()):
        raise ArtifactError("mixture: an item is in no pool; train the bundle again")
    return model


def _empty(about: Mapping[str, object]) -> PoolMixture:
    experts, gate = about["experts"], about["gate"]
    sigmas, outcome, learn = about["sigmas"], about["outcome"], about["learn_sigma"]
    if not (isinstance(experts, dict) and isinstance(gate, dict) and isinstance(sigmas, int)):
        raise ValueError("expected settings of experts and gate")
    made = PoolMixture(
        TwoTowerExperts.build(experts), Gate.build(gate), 1.0, outcome=str(outcome), learn_sigma=bool(learn)
    )
    own = made.log_sigma.detach().expand(sigmas).clone()
    made.log_sigma = type(made.log_sigma)(own) if learn else own
    return made
