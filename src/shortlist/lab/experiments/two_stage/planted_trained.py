"""One weakness planted in a pipeline with trained stages: does the diagnosis name the stage, and blame no other?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from shortlist.data import Dataset, Split
from shortlist.diagnose.bundle import dependents_of
from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.knobs.expressions import sizes_of
from shortlist.diagnose.knobs.retrain import retrain_variants
from shortlist.diagnose.knobs.rewritten import replace_stage
from shortlist.diagnose.knobs.variants import Variant, variants
from shortlist.diagnose.pipeline import diagnose_sample
from shortlist.diagnose.sample import sample_users
from shortlist.errors import ConfigError
from shortlist.grammar import Stage, leaves
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.metrics.estimate import exact_share
from shortlist.pipeline import Recipe, Recommender, parse_recipe
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate import make_world, simulate_log
from shortlist.train.pipeline import train_pipeline

SIZES = {  # users, items, categories, events
    "quick": (200, 160, 8, 6_000),
    "full": (450, 220, 11, 16_000),
}
SLATE = 20
HELD_OUT = 0.3  # of the users, for validation; as many again for the test part, which is not used
OLD = 0.01  # share of the training events that stale stages were fitted on, the oldest
NONE = ""  # no stage
SOURCE = "a planted weakness, trained stages"

HEALTHY = """
name = "healthy"
pipeline = "ease % 40 + popular % 20 + towers % 10 >> prerank % 40 >> rank % 20"

[stages.ease]
type = "ease"
exclude_seen = true

[stages.popular]
type = "popular"
exclude_seen = true

[stages.towers]
type = "two-tower"
exclude_seen = true

[stages.towers.train]
epochs = 10
batch_size = 256

[stages.prerank]
type = "model-scorer"

[stages.prerank.train]
start = "towers"

[stages.rank]
type = "mlp-ranker"

[stages.rank.train]
epochs = 25
learning_rate = 0.00002
"""

CONTROL, EPOCHS, MISSING, STALE, CUT = (
    "control",
    "too few epochs",
    "missing nominator",
    "stale data",
    "small cut",
)
PLANTS: Mapping[str, Mapping[str, Any]] = {  # settings of the recipe
    CONTROL: {},
    EPOCHS: {"stages.rank.train.epochs": 1},
    MISSING: {"pipeline": "popular % 20 + towers % 10 >> prerank % 40 >> rank % 20"},
    STALE: {},
    CUT: {"pipeline": "ease % 40 + popular % 20 + towers % 10 >> prerank % 20 >> rank % 20"},
}
STAGES = {EPOCHS: "rank", MISSING: "pool", STALE: "ease", CUT: "prerank"}
PARTS = {STALE: "pool"}  # without training a weak nominator can only be located in the pool
KNOBS = ("epochs", "nominator", "cut", "limits", "removed")  # of the changes, those that are trained here
SLOW = "sasrec"  # a nominator that is not added here, because it takes longer than all other trainings


def planted_trained(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
) -> Result:
    """A new simulated world per seed; one weakness at a time, diagnosed with and without retraining.

    With retraining the first finding should be the planted stage; in the control there should be none that advises
    anything. Without retraining no finding may advise a change of another stage. `data` is not needed.
    """
    began = start()
    if profile not in SIZES:
        raise ConfigError(f"planted-trained: expected the profile quick or full, got {profile!r}")
    trials = [
        trial for seed in tracked(seeds, "planted-trained", progress) for trial in _trials(profile, seed)
    ]
    by_plant = {plant: [one for one in trials if one.plant == plant] for plant in PLANTS}
    rows = [one for plant, own in by_plant.items() for one in _rows(plant, own)]
    claims = [one for plant, own in by_plant.items() for one in _claims(plant, own)]
    planted = [one for one in trials if one.plant != CONTROL]
    claims.append(_rate("all plants: named first with retraining", [one.named for one in planted]))
    claims.append(_rate("all plants: no other stage blamed without", [one.fair for one in planted]))
    users, items, categories, events = SIZES[profile]
    world = {"users": users, "items": items, "categories": categories, "events": events, "held out": HELD_OUT}
    settings = {"world": world, **{plant: dict(changes) for plant, changes in PLANTS.items()}}
    return result("planted-trained", profile, seeds, began, rows, claims, settings=settings)


@dataclass(frozen=True)
class TrainedTrial:
    """One weakness in one world."""

    plant: str
    recall: float
    healthy: float
    first: str  # stage of the first finding with retraining, if it advises something
    gain: float  # of that finding
    untrained: str  # stage of the first finding without retraining that advises something

    @property
    def named(self) -> bool:
        """Whether retraining names the planted stage first; in the control: no stage."""
        return self.first == STAGES.get(self.plant, NONE)

    @property
    def fair(self) -> bool:
        """Whether the first advice without retraining, if there is any, is for the planted stage or its pool."""
        return self.untrained in (NONE, STAGES.get(self.plant, NONE), PARTS.get(self.plant, NONE))


def _trials(profile: str, seed: int) -> list[TrainedTrial]:
    n_users, n_items, n_categories, n_events = SIZES[profile]
    dataset = simulate_log(make_world(n_users, n_items, n_categories, seed), n_events, seed)
    split = dataset.split(protocol="half-history", held_out=HELD_OUT, seed=seed)
    recipe = parse_recipe(HEALTHY)
    with TemporaryDirectory(prefix="shortlist-") as folder:
        world = _World(dataset, split, seed, Path(folder))
        healthy = world.diagnosed(world.trained(recipe), ()).recall.mean or 0.0
        return [
            world.trial(plant, with_settings(recipe, changes), healthy) for plant, changes in PLANTS.items()
        ]


@dataclass(frozen=True, eq=False)
class _World:
    """A simulated log; `folder` holds the stages fitted so far."""

    dataset: Dataset
    split: Split
    seed: int
    folder: Path

    def trial(self, plant: str, recipe: Recipe, healthy: float) -> TrainedTrial:
        bundle = self.trained(recipe)
        if plant == STALE:
            bundle = self.with_stale(bundle, STAGES[STALE])
        pool = bundle.pipeline.stages[0].title
        tried = [one for one in variants(recipe, pool, bundle.about.training) if one.knob in KNOBS]
        with_training = self.diagnosed(bundle, [one for one in tried if SLOW not in one.setting])
        without = with_findings(replace(with_training, knobs=_untrained(with_training)))
        first, gain = _first_advice(with_training)
        return TrainedTrial(
            plant, with_training.recall.mean or 0.0, healthy, first, gain, _first_advice(without)[0]
        )

    def trained(self, recipe: Recipe) -> Recommender:
        made = train_pipeline(recipe, self.dataset, self.seed, self.split, checkpoint_dir=self.folder)
        return made.recommender

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

    def diagnosed(self, bundle: Recommender, tried: Sequence[Variant]) -> Diagnosis:
        """The diagnosis on the validation users, with retraining if there are variants."""
        held_out, n_items = self.split.valid, len(self.dataset.catalog)
        sample = sample_users(held_out, n_items, None, self.seed)
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
        if not tried:
            return found
        gains = retrain_variants(
            tuple(tried), bundle, self.dataset, self.split, sample, k=SLATE, folder=self.folder
        )
        return with_findings(replace(found, knobs=(*found.knobs, *gains)))


def _untrained(diagnosis: Diagnosis) -> tuple[Any, ...]:
    return tuple(knob for knob in diagnosis.knobs if not knob.needs_training)


def _first_advice(diagnosis: Diagnosis) -> tuple[str, float]:
    """The stage of the first finding that advises a change, and its gain."""
    for finding in diagnosis.findings:
        if finding.advised and finding.gain is not None:
            return _owner(finding, diagnosis), finding.gain.mean or 0.0
    return NONE, 0.0


def _owner(finding: Finding, diagnosis: Diagnosis) -> str:
    """The stage of a finding; one nominator less is a change of the pool."""
    pooled = finding.stage in diagnosis.nominators and finding.setting.startswith("leaving out")
    return diagnosis.stages[0].name if pooled else finding.stage


def _rows(plant: str, trials: Sequence[TrainedTrial]) -> list[Row]:
    return [
        row(plant, "named first with retraining", [float(one.named) for one in trials]),
        row(plant, "no other stage blamed without", [float(one.fair) for one in trials]),
        row(plant, "recall, weak", [one.recall for one in trials]),
        row(plant, "recall, healthy", [one.healthy for one in trials]),
        row(plant, "gain of the first finding", [one.gain for one in trials]),
    ]


def _claims(plant: str, trials: Sequence[TrainedTrial]) -> list[Claim]:
    what = "nothing is advised with retraining" if plant == CONTROL else "named first with retraining"
    found = _listed([one.first for one in trials])
    blamed = _listed([one.untrained for one in trials])
    return [
        _rate(f"{plant}: {what}", [one.named for one in trials], f"first: {found}"),
        _rate(
            f"{plant}: no other stage blamed without",
            [one.fair for one in trials],
            f"first: {blamed}",
        ),
    ]


def _rate(name: str, right: Sequence[bool], note: str = "") -> Claim:
    """A share of the trials with its exact interval; it holds if all are right."""
    share = exact_share(sum(right), len(right))
    text = f"{sum(right)} of {len(right)}" + (f"; {note}" if note else "")
    return claim(name, SOURCE, all(right), share.mean or 0.0, text, (share.low or 0.0, share.high or 0.0))


def _listed(names: Sequence[str]) -> str:
    counts = {name or "none": list(names).count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
