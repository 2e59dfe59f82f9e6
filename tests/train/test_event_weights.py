"""Weights of events are used or refused by every trainer, and equal weights change nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Interactions, Vocabulary, half_history
from shortlist.errors import ConfigError
from shortlist.grammar import leaves
from shortlist.models.registry import MODELS
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline import TYPES, parse_recipe
from shortlist.pipeline.shipped import shipped_names, shipped_recipe
from shortlist.train.context import TrainContext
from shortlist.train.models.counting.counts import PopularTrainer
from shortlist.train.models.mf import LOSSES as MF_LOSSES
from shortlist.train.models.sequence import LOSSES as SEQUENCE_LOSSES
from shortlist.train.pipeline import train_pipeline
from shortlist.train.preparation.event_weights import check_event_weights, uses_weights
from shortlist.train.registry import TRAINERS, make_trainer, train_settings, trainer_of
from tests.train.logs import chains
from tests.train.rankers.requests import context_of

NO_EFFECT = {
    "recent",
    "repeat",
    "random",
    "split",
    "in-pool",
    "available",
    "diverse",
    "model-scorer",
    "seen",
    "explore",
}
"""Types that read no events, or only their times."""

SMALL = {"width": 8, "batch_size": 64, "epochs": 1, "device": "cpu", "max_history": 5}
OWN: dict[str, dict[str, Any]] = {
    "jtr": {"blocks": 1, "branch": 2, "leaf": 5, "rounds": 2, "round_epochs": 1},
    "tree": {"scorer": "linear", "windows": [2, 1, 1], "min_history": 2, "rounds": 2, "sasrec_width": 4,
             "negatives": 3},
    "din": {"windows": [2, 1, 1], "negatives": 5},
    "din-ranker": {"attention": [4], "layers": [8]},
    "two-tower-scorer": {"start": "towers"},
    "boosted-ranker": {"epochs": 3, "min_leaf_size": 2},
    "blend-ranker": {"epochs": 1, "trees": 3, "min_leaf_size": 2},
}  # fmt: skip
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in (*MODELS, *TRAINERS) if name not in NO_EFFECT | {"mf", "sasrec", "tree"}),
    *(("mf", {"loss": loss, "negatives": 8}) for loss in MF_LOSSES),
    *(("sasrec", {"loss": loss, "negatives": 8, "ahead": 2}) for loss in SEQUENCE_LOSSES),
    *(("tree", {"method": method}) for method in ("dtr-t-rl", "jtm", "tdm", "otm")),
    ("tree", {"method": "dtr-u", "ahead": 3, "order": "vectors"}),
    ("two-tower", {"full": 0, "negatives": 8}),
    ("two-tower", {"objective": "bpr"}),
    ("mf", {"objective": "ranknet"}),
    ("feature-ranker", {"objective": "lambdarank"}),
    ("boosted-ranker", {"negatives": "all-candidates"}),
    ("popular", {"days": 1}),
]
IDS = ["-".join(map(str, (name, *more.values()))) for name, more in CASES]


def ratings(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).integers(1, 6, count).astype(np.float32)


def context_with(name: str, world, weights: Any) -> TrainContext:
    """Events whose weights are a function of random ratings; targets of rankers too."""
    torch.manual_seed(0)
    if name.endswith(("ranker", "scorer")):
        towers = TwoTower(TwoTowerConfig(len(world.items), n_categories=1, width=4))
        context = replace(context_of(world), fitted={"towers": ModelNominator(towers)})
        generator = torch.Generator().manual_seed(3)
        grades = [torch.randint(1, 6, one.targets.shape, generator=generator) for one in context.batches]
        own = [torch.from_numpy(weights(grade.numpy().astype(np.float32))) for grade in grades]
        equal = all(bool((one == own[0].flatten()[0]).all()) for one in own)
        batches = tuple(
            replace(one, weights=None if equal else part / 3)
            for one, part in zip(context.batches, own, strict=True)
        )
        events = replace(context.events, weights=weights(ratings(len(context.events))))
        return replace(context, events=events, batches=batches)
    log = chains()
    events = replace(log, times=log.times * 100_000, weights=weights(ratings(len(log))))
    split = half_history(events, seed=0, held_out=0.2)
    return TrainContext(split.train, Catalog.bare(Vocabulary.of(list(range(20)))), valid=split.valid)


def fitted(name: str, more: Mapping[str, Any], context: TrainContext) -> dict[str, torch.Tensor]:
    known = {one.name for one in train_settings(name)}
    settings = {**SMALL, **OWN.get(name, {}), **more}
    trainer = make_trainer(name, **{key: value for key, value in settings.items() if key in known})
    stage = trainer.fit(
        {"name": "it", **({"days": 1} if "days" in more and name == "popular" else {})}, context
    )
    return stage.tensors()


def same(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_every_type_is_in_one_of_both_lists():
    assert {name for name, _ in CASES} | NO_EFFECT == set(TYPES)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_shipped_trainers_use_weights(name):
    assert uses_weights(trainer_of(name, {}, name)) is True
    assert "weights" in {one.name for one in train_settings(name)}


@pytest.mark.parametrize(("name", "more"), CASES, ids=IDS)
def test_inverted_ratings_give_a_different_stage_and_equal_weights_the_unweighted_one(name, more, world):
    stages = [
        fitted(name, more, context_with(name, world, weights))
        for weights in (
            lambda one: one,
            lambda one: 6 - one,
            np.ones_like,
            lambda one: np.full_like(one, 3.0),
        )
    ]
    assert not same(stages[0], stages[1])
    assert not same(stages[0], stages[2])
    assert same(stages[2], stages[3])
    assert same(stages[2], fitted(name, more, context_with(name, world, lambda one: one).unweighted()))


@pytest.mark.parametrize("name", ["recent", "available", "diverse"])
def test_weights_cannot_change_stages_that_read_no_weighted_events(name, world):
    assert uses_weights(make_trainer(name)) is None
    context = TrainContext(world.events, world.catalog)
    weighted = replace(context, events=replace(world.events, weights=ratings(len(world.events))))
    assert same(fitted(name, {}, context), fitted(name, {}, weighted))


RECIPE = """
pipeline = "popular % 30 + covisit % 40 >> seen >> rank % 10"
[stages.popular]
type = "popular"
[stages.covisit]
type = "co-visit"
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 2
"""
IMPLICIT = RECIPE.replace("epochs = 2", 'epochs = 2\nweights = "implicit"') + "".join(
    f'[stages.{name}.train]\nweights = "implicit"\n' for name in ("popular", "covisit", "seen")
)


def tensors_of(recipe: str, dataset, **more) -> dict[str, torch.Tensor]:
    pipeline = train_pipeline(parse_recipe(recipe), dataset, **more).recommender.pipeline
    stages = {stage.title: stage for stage in leaves(pipeline)}
    return {
        f"{title}.{name}": one for title, stage in stages.items() for name, one in stage.tensors().items()
    }


@pytest.fixture(scope="module")
def rated(world):
    return replace(world, events=replace(world.events, weights=ratings(len(world.events))))


def test_implicit_stages_of_a_weighted_log_are_those_of_the_unweighted_log(world, rated):
    unweighted = tensors_of(RECIPE, world)
    assert same(tensors_of(IMPLICIT, rated), unweighted)
    weighted = tensors_of(RECIPE, rated)
    changed = {name.split(".")[0] for name in unweighted if not torch.equal(weighted[name], unweighted[name])}
    assert changed == {"popular", "covisit", "rank"}


@dataclass(frozen=True)
class Plain:
    """A trainer of a user that knows nothing of weights."""

    fits: ClassVar[list[str]] = []

    def fit(self, settings: Mapping[str, Any], context: TrainContext) -> Popular:
        self.fits.append(str(settings["name"]))
        return PopularTrainer().fit(settings, context)


def test_trainer_that_does_not_use_weights_is_refused_before_any_training(world, rated):
    trainers = {**TRAINERS, "popular": Plain}
    expected = (
        r"\[stages.popular\]: Plain does not use weights of events, and those of this log are between 1 and 5; "
        r'count every event once for this stage with weights = "implicit" in \[stages.popular.train\] '
        r"\(--set stages.popular.train.weights=implicit\), or for all stages with "
        r"`shortlist data prepare --weights implicit`"
    )
    with pytest.raises(ConfigError, match=expected):
        tensors_of(RECIPE, rated, trainers=trainers)
    assert Plain.fits == []
    tensors_of(IMPLICIT, rated, trainers=trainers)
    tensors_of(RECIPE, world, trainers=trainers)
    assert Plain.fits == ["popular"] * 6  # in two folds without the targets of requests, and on all events


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_recipes_can_be_trained_on_a_weighted_log(name, rated):
    recipe = shipped_recipe(name)
    trainers = {key: trainer_of(one.type, one.train, key) for key, one in recipe.stages.items()}
    check_event_weights(recipe, trainers, rated.events)


def test_mode_of_weights_is_checked_and_belongs_to_recipes():
    with pytest.raises(ConfigError, match="here: weights must be one of use, implicit, got 'ignore'"):
        trainer_of("ease", {"weights": "ignore"}, "here")
    with pytest.raises(ConfigError, match=r"ease: weights is a key of recipes; call `events.unweighted\(\)`"):
        make_trainer("ease", weights="implicit")


def test_unweighted_events_have_weight_one():
    events = Interactions.of(np.array([0, 0]), np.array([0, 1]), weights=np.array([2.0, 3.0]))
    assert events.unweighted().weights.tolist() == [1, 1]
    assert events.unweighted().strengths is None


def test_every_type_stands_in_the_table_of_the_guide():
    page = Path(__file__).parents[2] / "docs/guide/weights.md"
    table = page.read_text("utf-8").partition("| types |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    assert sorted(re.findall(r"`([\w-]+)`", "".join(cells))) == sorted(TYPES)
