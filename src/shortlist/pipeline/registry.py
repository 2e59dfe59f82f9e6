"""The stages a TOML file can name; types come from this table, never from a file."""

from collections.abc import Mapping

from shortlist.grammar import Stage
from shortlist.models.registry import MODELS, model_name
from shortlist.nominate import CoVisit, JTRNominator, ModelNominator, Nearest, Popular, Recent, TreeNominator
from shortlist.stages import (
    Available,
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

TYPES: Mapping[str, type[Stage]] = {
    "popular": Popular,
    "recent": Recent,
    "co-visit": CoVisit,
    "two-tower": Nearest,
    "tree": TreeNominator,
    "jtr": JTRNominator,
    **dict.fromkeys(MODELS, ModelNominator),
    "seen": Seen,
    "available": Available,
    "two-tower-scorer": TowerScorer,
    "model-scorer": ModelScorer,
    "feature-ranker": FeatureRanker,
    "din-ranker": DINScorer,
    "mlp-ranker": MLPScorer,
    "boosted-ranker": BoostedScorer,
    "diverse": Diverse,
    "explore": Explore,
}


def type_name(stage: Stage, types: Mapping[str, type[Stage]]) -> str | None:
    """The name of a stage's type in the table, or None; of all the models it is that of the stage's own."""
    if type(stage) is ModelNominator:
        return model_name(stage.model)
    return next((name for name, kind in types.items() if type(stage) is kind), None)
