"""Cells of `planted-trained`: a pipeline trained with one planted weakness, and what its diagnosis finds."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from shortlist.data import Dataset, Split
from shortlist.diagnose.bundle import dependents_of
from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.knobs.expressions import sizes_of
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.knobs.retrain import retrain_variants
from shortlist.diagnose.knobs.rewritten import replace_stage
from shortlist.diagnose.knobs.variants import Variant, variants
from shortlist.diagnose.pipeline import diagnose_sample
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import Stage, leaves
from shortlist.metrics.ranking import recall
from shortlist.pipeline import Recipe, Recommender, parse_recipe
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recipe import to_toml
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.simulate import make_world, simulate_log
from shortlist.train.pipeline import train_pipeline

SIZES = {  # users, items, categories, events
    "quick": (200, 160, 8, 6_000),
    "full": (3_000, 1_000, 20, 120_000),
}
SLATE = 20
HELD_OUT = 0.33  # of the users, for validation; as many again for the test part, which is not used
OLD = 0.1  # share of the training events that stale stages were fitted on, the oldest
MINUTES = 60.0  # for all trainings of a cell
NONE = ""  # no stage

LIMITS = {  # of the nominators, in this order
    "quick": {"ease": 15, "towers": 15, "covisit": 15, "last_click": 10, "popular": 5},
    "full": {"ease": 60, "towers": 60, "covisit": 60, "last_click": 40, "popular": 20},
}
CUTS = {"quick": 30, "full": 120}  # of the pre-ranker
HEALTHY = """
name = "healthy"
pipeline = "ease + towers + covisit + last_click + popular >> prerank >> rank"

[stages.ease]
type = "ease"
exclude_seen = true
score_pool = true

[stages.towers]
type = "two-tower"
exclude_seen = true
score_pool = true

[stages.covisit]
type = "co-visit"
exclude_seen = true
score_pool = true

[stages.last_click]
type = "last-click"
exclude_seen = true

[stages.popular]
type = "popular"
exclude_seen = true

[stages.prerank]
type = "two-tower-scorer"

[stages.prerank.train]
start = "towers"

[stages.rank]
type = "feature-ranker"
"""

CONTROL = "control"
EPOCHS = "too few epochs"
MISSING = "missing nominator"
NEIGHBOURS = "no item neighbours"
STALE = "stale data"
CUT = "small cut"
PLANTS = (CONTROL, STALE, EPOCHS, CUT, MISSING, NEIGHBOURS)
STAGES = {EPOCHS: "rank", MISSING: "pool", NEIGHBOURS: "pool", STALE: "ease", CUT: "prerank"}
WITHOUT = {MISSING: ("ease",), NEIGHBOURS: ("ease", "covisit")}  # nominators that are left out
PARTS = {STALE: "pool"}  # without training a weak nominator can only be located in the pool
KNOBS = ("epochs", "nominator", "cut", "limits", "removed")  # of the changes, those that are trained here
SLOW = "sasrec"  # a nominator that is not added here, because it takes longer than all other trainings


@dataclass(frozen=True, order=True)
class PlantedCell:
    """One weakness in the world of one seed."""

    plant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.plant}/{self.seed}"


@dataclass(frozen=True)
class TrainedTrial:
    """What the diagnosis of a cell found."""

    plant: str
    recall: float
    first: str  # stage of the first finding with retraining, if it advises something
    gain: float  # of that finding
    untrained: str  # stage of the first finding without retraining that advises something
    seconds: float = 0.0
    changes: Mapping[str, Sequence[float]] | None = (
        None  # mean, low, high and p-value of every trained change
    )

    @property
    def named(self) -> bool:
        """Whether retraining names the planted stage first; in the control: no stage."""
        return self.first == STAGES.get(self.plant, NONE)

    @property
    def fair(self) -> bool:
        """Whether the first advice without retraining, if there is any, is for the planted stage or its pool."""
        return self.untrained in (NONE, STAGES.get(self.plant, NONE), PARTS.get(self.plant, NONE))


def recipe_of(plant: str, profile: str) -> Recipe:
    """The healthy recipe with a planted weakness; stale data is no part of a recipe."""
    limits = {name: limit for name, limit in LIMITS[profile].items() if name not in WITHOUT.get(plant, ())}
    pool = " + ".join(f"{name} % {limit}" for name, limit in limits.items())
    cut = SLATE if plant == CUT else CUTS[profile]
    settings: dict[str, Any] = {"pipeline": f"{pool} >> prerank % {cut} >> rank % {SLATE}"}
    if plant == EPOCHS:
        settings["stages.rank.train.epochs"] = 1
    return with_settings(parse_recipe(HEALTHY), settings)


def settings_of(cell: PlantedCell, profile: str) -> dict[str, Any]:
    """What decides the answer of a cell."""
    world = dict(zip(("users", "items", "categories", "events"), SIZES[profile], strict=True))
    old = {"old": OLD} if cell.plant == STALE else {}
    trained = {"recipe": to_toml(recipe_of(cell.plant, profile)), **old}
    return {**world, "held_out": HELD_OUT, **trained, "changes": KNOBS, "not_added": SLOW}


def run_planted(cell: PlantedCell, profile: str, folder: Path) -> tuple[Tensor, dict[str, Any]]:
    """The recall of every validation user [U], and the trial as facts.

    Cells of one process share fitted stages in `folder`.
    """
    began = time.perf_counter()
    n_users, n_items, n_categories, n_events = SIZES[profile]
    dataset = simulate_log(make_world(n_users, n_items, n_categories, cell.seed), n_events, cell.seed)
    split = dataset.split(protocol="half-history", held_out=HELD_OUT, seed=cell.seed)
    world = _World(dataset, split, cell.seed, folder / str(os.getpid()))
    bundle = world.planted(cell.plant, recipe_of(cell.plant, profile))
    trial = world.trial(cell.plant, bundle)
    return world.recalls(bundle), {**vars(trial), "seconds": time.perf_counter() - began}


@dataclass(frozen=True, eq=False)
class _World:
    """A simulated log; `folder` holds the stages fitted so far."""

    dataset: Dataset
    split: Split
    seed: int
    folder: Path

    def planted(self, plant: str, recipe: Recipe) -> Recommender:
        """The trained pipeline with its weakness."""
        bundle = self.trained(recipe)
        return self.with_stale(bundle, STAGES[STALE]) if plant == STALE else bundle

    def recalls(self, bundle: Recommender) -> Tensor:
        """The recall of every validation user [U]."""
        slates = slates_of(offline(bundle.pipeline), self.split.valid, SLATE)
        return recall(slates, self.split.valid.relevant(), SLATE)

    def trial(self, plant: str, bundle: Recommender) -> TrainedTrial:
        """What the diagnosis finds."""
        assert bundle.recipe is not None
        found = self.diagnosed(bundle, tried(bundle.recipe, bundle))
        without = with_findings(replace(found, knobs=_untrained(found)))
        first, gain = first_advice(found)
        return TrainedTrial(
            plant,
            found.recall.mean or 0.0,
            first,
            gain,
            first_advice(without)[0],
            changes={_title(knob): _figures(knob) for knob in found.knobs if knob.needs_training},
        )

    def trained(self, recipe: Recipe) -> Recommender:
        return train_pipeline(
            recipe, self.dataset, self.seed, self.split, checkpoint_dir=self.folder
        ).recommender

    def with_stale(self, bundle: Recommender, name: str) -> Recommender:
        """The bundle with a nominator that was fitted on the oldest events only."""
        times = self.split.events.times
        limit = np.quantile(times[self.split.in_train], OLD)
        old = replace(self.split, in_train=self.split.in_train & (times <= limit))
        assert bundle.recipe is not None
        size = sizes_of(bundle.recipe.expression)[name]
        alone = with_settings(bundle.recipe, {"pipeline": f"{name} % {size}"})
        trained = train_pipeline(alone, self.dataset, self.seed, old).recommender
        stale: Stage = leaves(trained.pipeline)[0]
        return replace(bundle, pipeline=replace_stage(bundle.pipeline, name, lambda _: stale))

    def diagnosed(self, bundle: Recommender, changes: Sequence[Variant]) -> Diagnosis:
        """The diagnosis on the validation users, with retraining."""
        sample = sample_users(self.split.valid, len(self.dataset.catalog), None, self.seed)
        found = diagnose_sample(
            bundle.pipeline,
            sample,
            self.split.train,
            self.dataset.catalog,
            k=SLATE,
            on="valid",
            held_out_users=sample.n_users,
        )
        found = replace(found, dependents=dependents_of(bundle.recipe), about=bundle.about)
        gains = retrain_variants(
            tuple(changes),
            bundle,
            self.dataset,
            self.split,
            sample,
            k=SLATE,
            minutes=MINUTES,
            folder=self.folder,
        )
        return with_findings(replace(found, knobs=(*found.knobs, *gains)))


def tried(recipe: Recipe, bundle: Recommender) -> list[Variant]:
    """The changes that are trained."""
    every = variants(recipe, bundle.pipeline.stages[0].title, bundle.about.training)
    return [one for one in every if one.knob in KNOBS and SLOW not in one.setting]


def first_advice(diagnosis: Diagnosis) -> tuple[str, float]:
    """The stage of the first finding that advises a change, and its gain."""
    for finding in diagnosis.findings:
        if finding.advised and finding.gain is not None:
            return _owner(finding, diagnosis), finding.gain.mean or 0.0
    return NONE, 0.0


def _owner(finding: Finding, diagnosis: Diagnosis) -> str:
    """The stage of a finding; one nominator less is a change of the pool."""
    pooled = finding.stage in diagnosis.nominators and finding.setting.startswith("leaving out")
    return diagnosis.stages[0].name if pooled else finding.stage


def _untrained(diagnosis: Diagnosis) -> tuple[KnobResult, ...]:
    return tuple(knob for knob in diagnosis.knobs if not knob.needs_training)


def _title(knob: KnobResult) -> str:
    return f"{knob.stage}: {knob.knob} {knob.setting}"


def _figures(knob: KnobResult) -> list[float]:
    """Mean, low, high and p-value, where they were measured."""
    gain = knob.gain
    known = [] if gain is None else [gain.mean, gain.low, gain.high, knob.p_value]
    return [one for one in known if one is not None]
