"""The stage types a recipe can use; `shortlist.pipeline.plugins` adds those of other packages."""

from collections.abc import Mapping

from shortlist.errors import ConfigError
from shortlist.grammar import Stage
from shortlist.models.model import Model
from shortlist.models.registry import MODELS, model_name
from shortlist.nominate import (
    CoVisit,
    InPool,
    JTRNominator,
    ModelNominator,
    Pooled,
    Popular,
    RandomItems,
    Recent,
    Repeat,
    Split,
    TreeNominator,
)
from shortlist.stages import (
    Available,
    BlendScorer,
    BoostedScorer,
    DINScorer,
    Diverse,
    Explore,
    FeatureRanker,
    MLPScorer,
    ModelScorer,
    Seen,
    TowerScorer,
)

TYPES: dict[str, type[Stage]] = {
    "popular": Popular,
    "recent": Recent,
    "repeat": Repeat,
    "random": RandomItems,
    "co-visit": CoVisit,
    "tree": TreeNominator,
    "jtr": JTRNominator,
    "pooled": Pooled,
    "in-pool": InPool,
    **dict.fromkeys(MODELS, ModelNominator),
    "split": Split,
    "seen": Seen,
    "available": Available,
    "two-tower-scorer": TowerScorer,
    "model-scorer": ModelScorer,
    "feature-ranker": FeatureRanker,
    "din-ranker": DINScorer,
    "mlp-ranker": MLPScorer,
    "boosted-ranker": BoostedScorer,
    "blend-ranker": BlendScorer,
    "diverse": Diverse,
    "explore": Explore,
}

REPLACED: Mapping[str, str] = {"popular-in-window": 'type = "popular" with days'}
"""Types of recipes before version 0.2.0, and what to write now."""


def register(name: str, kind: type[Stage] | type[Model]) -> None:
    """Add a stage or a model of your own to the types that recipes, bundles and the service know.

    A model nominates the items it scores best. A stage with tensors also needs a trainer:
    `shortlist.train.registry.register_trainer`.
    """
    if name in TYPES:
        raise ConfigError(f"type {name!r} exists already; choose another name")
    add_type(name, kind)


def add_type(name: str, kind: type[Stage] | type[Model]) -> None:
    """Add a type, or replace the one of this name."""
    if issubclass(kind, Model):
        MODELS[name] = kind
        TYPES[name] = ModelNominator
    else:
        TYPES[name] = kind


def type_name(stage: Stage, types: Mapping[str, type[Stage]]) -> str | None:
    """The type of a stage in recipes, or None; a nominator that uses a model has the model's name."""
    if type(stage) is ModelNominator:
        return model_name(type(stage.model))
    return next((name for name, kind in types.items() if type(stage) is kind), None)
