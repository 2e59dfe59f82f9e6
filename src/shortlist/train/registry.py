"""The trainer of every stage type, and all settings of a type."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Protocol, get_type_hints, runtime_checkable

from shortlist.errors import ConfigError
from shortlist.grammar import Nominator, Stage
from shortlist.models.collaborative.ccf import CCF
from shortlist.models.collaborative.ease import EASE
from shortlist.models.collaborative.item_knn import ItemKNN
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.models.collaborative.mf import MF
from shortlist.models.counts.last_click import LastClick
from shortlist.models.model import Model, VectorModel
from shortlist.models.registry import MODELS
from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.models.sequence.din import DIN
from shortlist.models.sequence.model import SequenceModel
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.models.sequence.two_tower import TwoTower
from shortlist.pipeline.recipe import Recipe
from shortlist.pipeline.registry import TYPES
from shortlist.settings import Setting, check_settings, is_plain, settings_of
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.jtr import JTRTrainer
from shortlist.train.models.bert4rec import BERT4RecTrainer
from shortlist.train.models.ccf import CCFTrainer
from shortlist.train.models.counting.co_visit import CoVisitTrainer
from shortlist.train.models.counting.counts import (
    AvailableTrainer,
    DiverseTrainer,
    PopularTrainer,
    RandomTrainer,
    RecentTrainer,
)
from shortlist.train.models.counting.ease import EASETrainer
from shortlist.train.models.counting.item_knn import ItemKNNTrainer
from shortlist.train.models.counting.last_click import LastClickTrainer
from shortlist.train.models.din import DINTrainer
from shortlist.train.models.lightgcn import LightGCNTrainer
from shortlist.train.models.mf import MFTrainer
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer
from shortlist.train.models.two_tower import TwoTowerTrainer
from shortlist.train.models.untrained import UntrainedModel, has_weights
from shortlist.train.models.window import WindowTrainer
from shortlist.train.pools.in_pool import InPoolTrainer
from shortlist.train.pools.pooled import PooledTrainer
from shortlist.train.preparation.event_weights import WEIGHTS, uses_weights
from shortlist.train.preparation.examples import EXAMPLES, POOLS
from shortlist.train.rankers.blend_ranker import BlendRankerTrainer
from shortlist.train.rankers.boosted_ranker import BoostedRankerTrainer
from shortlist.train.rankers.din_ranker import DINRankerTrainer
from shortlist.train.rankers.feature_ranker import FeatureRankerTrainer
from shortlist.train.rankers.mlp_ranker import MLPRankerTrainer
from shortlist.train.rankers.model_scorer import ModelScorerTrainer
from shortlist.train.rankers.training_data.out_of_fold import OutOfFoldConfig
from shortlist.train.rankers.two_tower_scorer import TowerScorerTrainer
from shortlist.train.split.trainer import SplitTrainer
from shortlist.train.tree.trainer import TreeTrainer


class Trainer(Protocol):
    """Makes a stage. A trainer is a frozen dataclass; its fields are the keys of `[stages.NAME.train]`.

    `fit` gets the keys of `[stages.NAME]`, the stage's name among them, and returns a stage that can run. A trainer
    that follows the weights of events has `uses_weights: ClassVar[bool] = True`; others refuse unequal weights. One
    that takes no gradient steps has `counts_only: ClassVar[bool] = True`: `shortlist refresh` fits its stage again.
    """

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Stage: ...


@runtime_checkable
class Renewer(Protocol):
    """A trainer that updates the counts in its stage to all events, after training on out-of-fold candidates."""

    def renew(self, stage: Any, context: TrainContext) -> Stage: ...


@runtime_checkable
class Tuner(Protocol):
    """A trainer that chooses some numbers of its stage on the validation requests, with the measured nominators."""

    def tune(
        self, stage: Any, batches: Sequence[RequestBatch], what: str
    ) -> tuple[Stage, Mapping[str, float]]: ...


@runtime_checkable
class DeclaresSettings(Protocol):
    """A trainer class whose settings are not its fields alone."""

    @classmethod
    def declared(cls) -> tuple[Setting, ...]: ...


MODEL_TRAINERS: dict[type[Any], type[ModelTrainer]] = {
    BERT4Rec: BERT4RecTrainer,
    CCF: CCFTrainer,
    DIN: DINTrainer,
    EASE: EASETrainer,
    ItemKNN: ItemKNNTrainer,
    LastClick: LastClickTrainer,
    LightGCN: LightGCNTrainer,
    MF: MFTrainer,
    TwoTimeScale: TwoTimeScaleTrainer,
    TwoTower: TwoTowerTrainer,
    SequenceModel: SequenceTrainer,
    VectorModel: WindowTrainer,
}
"""Trainers of models. A model has the trainer of its nearest base class, so a new sequence model needs no entry."""

TRAINERS: dict[str, type[Trainer]] = {
    "popular": PopularTrainer,
    "recent": RecentTrainer,
    "random": RandomTrainer,
    "co-visit": CoVisitTrainer,
    "tree": TreeTrainer,
    "jtr": JTRTrainer,
    "pooled": PooledTrainer,
    "in-pool": InPoolTrainer,
    "split": SplitTrainer,
    "available": AvailableTrainer,
    "two-tower-scorer": TowerScorerTrainer,
    "model-scorer": ModelScorerTrainer,
    "feature-ranker": FeatureRankerTrainer,
    "din-ranker": DINRankerTrainer,
    "mlp-ranker": MLPRankerTrainer,
    "boosted-ranker": BoostedRankerTrainer,
    "blend-ranker": BlendRankerTrainer,
    "diverse": DiverseTrainer,
}
"""Trainers of stages. A type that is not here fits itself (`own_fit`) or is built from its settings alone."""


@dataclass(frozen=True)
class Stateless:
    """Builds a stage that has nothing to train, or that fits itself."""

    kind: type[Stage]

    @property
    def uses_weights(self) -> bool | None:
        """Nothing to train: weights change nothing; a stage that fits itself says whether it follows them."""
        return uses_weights(self.kind) if own_fit(self.kind) else None

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Stage:
        fit = own_fit(self.kind)
        return self.kind.build(settings, {}) if fit is None else fit(settings, context)


def own_fit(kind: type[Stage]) -> Callable[[Mapping[str, Any], TrainContext], Stage] | None:
    """The classmethod `fit(settings, context)` of a stage that needs no trainer, None where it has none."""
    return getattr(kind, "fit", None)


OF_EVENTS = (WEIGHTS, EXAMPLES, POOLS)
"""Keys of `[stages.NAME.train]` that change the events of a trainer; it does not read them itself."""
OF_RECIPES = {one.name for one in OF_EVENTS}


def register_trainer(name: str, trainer: type[Trainer]) -> None:
    """Add the trainer of a stage type of your own."""
    TRAINERS[name] = trainer


def make_trainer(name: str, **settings: Any) -> Any:
    """The trainer of a type: `make_trainer("sasrec", width=32, epochs=5)`."""
    if WEIGHTS.name in settings:
        raise ConfigError(
            f"{name}: weights is a key of recipes; call `events.unweighted()` to count events once"
        )
    if used := OF_RECIPES & settings.keys():
        raise ConfigError(
            f"{name}: {' and '.join(sorted(used))} belong to recipes; set `examples` of the events instead"
        )
    return trainer_of(name, settings, name)


def trainer_of(
    name: str,
    settings: Mapping[str, Any],
    where: str,
    trainers: Mapping[str, type[Trainer]] = TRAINERS,
    types: Mapping[str, type[Stage]] = TYPES,
) -> Trainer:
    """The trainer of a type with the keys of `[stages.NAME.train]`; `where` begins the message of an error."""
    try:
        allowed = train_settings(name, trainers, types)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    own = {key: value for key, value in settings.items() if key != WEIGHTS.name}
    check_settings(own, allowed, where)
    WEIGHTS.check(settings.get(WEIGHTS.name, WEIGHTS.default), where)
    plain = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in own.items()
        if key not in OF_RECIPES
    }
    try:
        if name in trainers:
            return trainers[name](**plain)
        return (
            _model_trainer(MODELS[name]).with_settings(**plain) if name in MODELS else Stateless(types[name])
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def check_training(recipe: Recipe) -> None:
    """Refuse a recipe whose training settings do not exist or do not fit, before any work."""
    check_settings(recipe.training, settings_of(OutOfFoldConfig), f"{recipe.path}: [train]")
    for name, one in recipe.stages.items():
        trainer_of(one.type, one.train, f"{recipe.path}: [stages.{name}.train]")


def train_settings(
    name: str,
    trainers: Mapping[str, type[Trainer]] = TRAINERS,
    types: Mapping[str, type[Stage]] = TYPES,
) -> tuple[Setting, ...]:
    """The keys of `[stages.NAME.train]` of a type, with the defaults of that type; those of events last."""
    if name in trainers:
        kind = trainers[name]
        own = kind.declared() if isinstance(kind, DeclaresSettings) else settings_of(kind)
        return (*own, *_of_events(kind, types.get(name)))
    if name not in MODELS:
        _check_stateless(name, types[name])
        return ()
    trainer = _model_trainer(MODELS[name])
    defaults = trainer.settings()
    declared = (replace(one, default=defaults[one.name]) for one in trainer.declared())
    return (*declared, *(_of_events(trainer, Nominator) or (WEIGHTS,)))


def _of_events(trainer: object, stage: type[Stage] | None) -> tuple[Setting, ...]:
    """The keys that say how much each event counts, of a trainer whose stage they can change."""
    used = uses_weights(trainer)
    if used is None:
        return ()
    return OF_EVENTS if used and stage is not None and issubclass(stage, Nominator) else (WEIGHTS,)


def _model_trainer(model: type[Model]) -> ModelTrainer:
    """The trainer of the nearest base class of a model, with the model's own training defaults."""
    kind = next((MODEL_TRAINERS[base] for base in model.__mro__ if base in MODEL_TRAINERS), None)
    if hasattr(model, "fit") or (kind is None and not has_weights(model)):
        kind = UntrainedModel
    if kind is None:
        raise ConfigError(
            f"no trainer for {model.__name__}; derive it from SequenceModel or VectorModel, "
            "give it a classmethod fit(config, events) that returns the model, "
            "or add its trainer to shortlist.train.registry.MODEL_TRAINERS"
        )
    return kind(model=model, **model.training_defaults)


def _check_stateless(name: str, kind: type[Stage]) -> None:
    """Refuse a stage with tensors or other parts that only a trainer can make."""
    if own_fit(kind) is not None:
        return
    hints = get_type_hints(kind)
    for one in fields(kind):
        required = one.init and one.default is MISSING and one.default_factory is MISSING
        if required and not is_plain(hints[one.name]):
            raise ConfigError(
                f"no trainer for type {name!r}, whose {one.name} must be trained; give {kind.__name__} a classmethod "
                "fit(settings, context) that returns the stage, or call shortlist.train.registry.register_trainer"
            )
