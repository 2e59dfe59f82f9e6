"""One weak stage planted in a pipeline with near-perfect stages: does the diagnosis find it and predict the gain?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates, Dataset, HeldOut, Interactions, Query
from shortlist.diagnose import diagnose_pipeline
from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.knobs.rewritten import replace_stage, replace_step
from shortlist.diagnose.sample import UserSample, sample_users
from shortlist.diagnose.what_if import what_if
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator, Pipeline, Scorer, Stage, as_pipeline
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.metrics.estimate import Estimate
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate import World, make_world, simulate_log
from shortlist.stages import Available, Seen
from shortlist.stages.explore import gumbel

SIZES = {  # users, items, categories, events
    "quick": (200, 240, 12, 6_000),
    "full": (1000, 1200, 24, 60_000),
}
LIKED, NEXT = "liked items", "next item"
RELEVANT = (LIKED, NEXT)  # what counts as relevant
N_LIKED = 10  # items of a user with the highest affinity
SLATE = 20
SMALL_CUT = 12  # enough for all relevant items, if they were ranked first
NOISE = {"near": 1.0, "prerank": 1.0, "rank": 0.25}  # of Gumbel noise on log-odds; set once, not tuned
PLANTS = ("nominator", "filter", "pre-ranker", "cut", "ranker")
STAGES = {
    "nominator": "pool",
    "filter": "available",
    "pre-ranker": "prerank",
    "cut": "prerank",
    "ranker": "rank",
}
OPENED = ("nominator", "filter", "pre-ranker", "cut")  # stages with a knob that lets everything pass
NO_KNOB = Estimate(0.0, 0.0, 0.0)
SOURCE = "a planted weak stage, simulated world"


def planted_stage(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> Result:
    """A new world per seed; each weak stage is planted alone, diagnosed, fixed and measured on the same users.

    Fixed means: the stage of the healthy pipeline, everything else unchanged. The weak nominator covers half of the
    catalogue instead of all of it; the weak filter lets two thirds of the items pass instead of all; the weak
    pre-ranker and ranker score at random instead of by affinity with some noise; the weak cut keeps 12 items instead
    of a quarter of the catalogue. An oracle loses nothing, so healthy stages lose next to nothing; what they lose is
    part of the difference.

    Relevant items are either those a user likes most, or the next items of the log, which are sampled from the user's
    affinities. An oracle lets only relevant items in; a fixed stage also lets in irrelevant ones. Irrelevant items are
    liked less than the items liked most and displace none of them, so the oracle should predict the gain. They are
    often liked more than the next items of the log, so there the oracle is an upper bound. A knob that opens the stage
    lets irrelevant items in too and does not use the held-out answers: it should gain as much as the fix. `data` is
    not needed.
    """
    began = start()
    if profile not in SIZES:
        raise ConfigError(f"planted-stage: expected the profile quick or full, got {profile!r}")
    trials = [trial for seed in tracked(seeds, "planted-stage", progress) for trial in _trials(profile, seed)]
    rows, claims = [], []
    for relevant in RELEVANT:
        for plant in PLANTS:
            same = [one for one in trials if (one.relevant, one.plant) == (relevant, plant)]
            rows += _rows(same)
            claims += _claims(same)
    users, items, categories, events = SIZES[profile]
    world = {"users": users, "items": items, "categories": categories, "events": events, "noise": NOISE}
    return result("planted-stage", profile, seeds, began, rows, claims, settings={"world": world})


@dataclass(frozen=True)
class PlantTrial:
    """One weak stage in one world."""

    plant: str
    relevant: str  # what counts as relevant
    ranked_first: str  # the stage of the first finding
    largest: str  # the stage with the largest gain of its oracle
    knob: Estimate  # gain of the stage's best knob, or of leaving out its rule
    recall: float
    fixed: float  # recall after the fix
    oracle: Estimate  # the predicted gain
    left: float  # gain of a perfect stage after the fix

    @property
    def gain(self) -> float:
        """The measured gain of the fix."""
        return self.fixed - self.recall

    @property
    def predicted(self) -> bool:
        """Whether the gain lies within the interval of the oracle's gain."""
        return _within(self.oracle, self.gain)

    @property
    def knob_predicted(self) -> bool:
        """Whether the gain lies within the interval of the best knob's gain."""
        return _within(self.knob, self.gain)


def _within(estimate: Estimate, value: float) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and low <= value <= high


def _trials(profile: str, seed: int) -> list[PlantTrial]:
    n_users, n_items, n_categories, n_events = SIZES[profile]
    world = make_world(n_users, n_items, n_categories, seed)
    dataset = simulate_log(world, n_events, seed)
    pipeline = pipeline_of(world, dataset)
    trials = []
    for relevant in RELEVANT:
        sample = sample_users(held_out_of(world, dataset, relevant), n_items, seed=seed)
        healthy = Healthy.of(pipeline, sample)
        trials += [_trial(healthy, sample, plant, relevant, dataset) for plant in PLANTS]
    return trials


@dataclass(frozen=True, eq=False)
class Healthy:
    """The healthy pipeline on a sample of users."""

    pipeline: Pipeline
    recall: float
    left: Mapping[str, float]  # by stage, the gain of its oracle

    @classmethod
    def of(cls, pipeline: Pipeline, sample: UserSample) -> "Healthy":
        followed = follow_relevant_items(pipeline, sample)
        gains = zip(followed.stages, what_if(pipeline, sample, followed), strict=True)
        left = {stage.name: float(one.oracle.mean or 0.0) for stage, one in gains if one.oracle is not None}
        return cls(pipeline, float(sample.recall(followed.hits(len(sample))).mean or 0.0), left)


def _trial(healthy: Healthy, sample: UserSample, plant: str, relevant: str, dataset: Dataset) -> PlantTrial:
    """The diagnosis of one planted stage."""
    weak, name = planted(healthy.pipeline, plant, sample.n_items, sample.seed), STAGES[plant]
    found = diagnose_pipeline(
        weak, sample.held_out, dataset.events, dataset.catalog, users=sample.n_users, seed=sample.seed
    )
    oracles = {one.name: one.what_if.oracle for one in found.stages if one.what_if.oracle is not None}
    names = {"pool": ("pool", "near")}.get(name, (name,))
    gains = [
        one.gain for one in (*found.knobs, *found.filters) if one.stage in names and one.gain is not None
    ]
    return PlantTrial(
        plant,
        relevant,
        found.findings[0].stage or "",
        max(oracles, key=lambda stage: float(oracles[stage].mean or 0.0)),
        max(gains, key=lambda gain: gain.mean or 0.0, default=NO_KNOB),
        float(found.recall.mean or 0.0),
        healthy.recall,
        oracles[name],
        healthy.left[name],
    )


def pipeline_of(world: World, dataset: Dataset) -> Pipeline:
    """Stages that know the affinities of the world except for some noise."""
    everything = torch.ones(world.n_items, dtype=torch.bool)
    category = torch.from_numpy(dataset.catalog.category_rows.copy())
    stages: Stage = AffinityNominator(
        world, everything, NOISE["near"], 1, name="near", limit=world.n_items // 2
    )
    stages = stages >> Seen(name="seen") >> Available(everything, category, name="available")
    stages = stages >> AffinityScorer(world, NOISE["prerank"], 2, name="prerank") % (world.n_items // 4)
    return as_pipeline(stages >> AffinityScorer(world, NOISE["rank"], 3, name="rank") % SLATE)


def planted(healthy: Pipeline, plant: str, n_items: int, seed: int) -> Pipeline:
    """The same pipeline with one weak stage."""
    random = torch.rand(n_items, generator=torch.Generator().manual_seed(seed))
    name = {"nominator": "near", "filter": "available"}.get(plant, STAGES[plant])
    if plant == "cut":
        at = [stage.title for stage in healthy.stages].index(name)
        return replace_step(healthy, at, lambda stage: stage.renewed(k=SMALL_CUT))
    changes: dict[str, dict[str, Any]] = {
        "nominator": {"known_items": random < 1 / 2},
        "filter": {"allowed": random < 2 / 3},
        "pre-ranker": {"noise_only": True},
        "ranker": {"noise_only": True},
    }
    return replace_stage(healthy, name, lambda stage: stage.renewed(**changes[plant]))


@dataclass(frozen=True, eq=False, repr=False)
class AffinityNominator(Nominator):
    """The items with the highest affinity plus noise, of those it knows."""

    world: World
    known_items: Tensor  # [N] bool
    noise: float = 1.0
    salt: int = 0

    def nominate(self, query: Query) -> Candidates:
        items = torch.arange(self.world.n_items).expand(len(query), -1)
        scores = log_odds(self.world, query, items) + self.noise * _noise(query, items, self.salt)
        best = scores.masked_fill(~self.known_items, -torch.inf).sort(dim=1, descending=True, stable=True)
        nominated = best.indices.masked_fill(best.values == -torch.inf, -1)[:, : self.limit]
        return Candidates.of(nominated, best.values[:, : self.limit].masked_fill(nominated < 0, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class AffinityScorer(Scorer):
    """The affinity of a user plus noise, or noise only."""

    world: World
    noise: float = 1.0
    salt: int = 0
    noise_only: bool = False

    def score(self, query: Query, found: Candidates) -> Tensor:
        items = found.items.clamp(min=0)
        noise = _noise(query, items, self.salt)
        return noise if self.noise_only else log_odds(self.world, query, items) + self.noise * noise


def log_odds(world: World, query: Query, items: Tensor) -> Tensor:
    """Log-odds that a user interacts with each item [B, K] at the time of the request; future items come last."""
    affinity = world.affinity(query.user.numpy(), items.numpy(), query.time.numpy())
    return torch.from_numpy(np.log(affinity.clip(1e-12)) - np.log1p(-affinity)).to(torch.float32)


@dataclass(frozen=True, eq=False)
class _Request:
    """A user's history and the relevant items after it."""

    user: int
    history: NDArray[np.int64]
    times: NDArray[np.int64]
    relevant: NDArray[np.int64]
    time: int


def held_out_of(world: World, dataset: Dataset, relevant: str) -> HeldOut:
    """One request per user: the first half of the log, then relevant items that are not in it."""
    events, requests = dataset.events, []
    for user in np.flatnonzero(events.lengths >= 2):
        begin, stop = events.starts[user], events.starts[user + 1]
        cut = begin + (stop - begin) // 2
        history, time = events.items[begin:cut].astype(np.int64), int(events.times[cut])
        later = (
            _liked(world, int(user), history, time)
            if relevant == LIKED
            else _next(events, cut, stop, history)
        )
        if len(later):
            requests.append(_Request(int(user), history, events.times[begin:cut], later, time))
    return _held_out(requests, events)


def _liked(world: World, user: int, history: NDArray[np.int64], time: int) -> NDArray[np.int64]:
    """The items with the highest affinity that are not in the history."""
    best: NDArray[np.int64] = world.best(np.array([user]), time, N_LIKED + len(history))[0]
    return best[~np.isin(best, history) & (best >= 0)][:N_LIKED]


def _next(events: Interactions, cut: int, stop: int, history: NDArray[np.int64]) -> NDArray[np.int64]:
    """The items of the log after the cut that are not in the history."""
    later = events.items[cut:stop].astype(np.int64)
    return np.unique(later[~np.isin(later, history)])


def _held_out(requests: Sequence[_Request], events: Interactions) -> HeldOut:
    """Held-out requests over events of their own."""
    users = np.concatenate([np.full(len(one.history) + len(one.relevant), one.user) for one in requests])
    items = np.concatenate([np.concatenate([one.history, one.relevant]) for one in requests])
    times = np.concatenate(
        [np.concatenate([one.times, np.full(len(one.relevant), one.time)]) for one in requests]
    )
    made = Interactions.of(users, items, times, n_users=events.n_users, n_items=events.n_items)
    rows = np.array([one.user for one in requests])
    cuts = made.starts[rows] + np.array([len(one.history) for one in requests])
    return HeldOut(made, made.starts[rows], cuts, made.starts[rows + 1])


def _noise(query: Query, items: Tensor, salt: int) -> Tensor:
    return gumbel(query.seed * 1009 + salt, items)


def _rows(trials: Sequence[PlantTrial]) -> list[Row]:
    name = f"{trials[0].plant}, {trials[0].relevant}"
    return [
        row(name, "recall, weak", [one.recall for one in trials]),
        row(name, "recall, fixed", [one.fixed for one in trials]),
        row(name, "gain, measured", [one.gain for one in trials]),
        *_interval_rows(name, "gain, predicted", [one.oracle for one in trials]),
        row(name, "gain, left after the fix", [one.left for one in trials]),
        *_interval_rows(name, "gain, best knob", [one.knob for one in trials]),
    ]


def _interval_rows(name: str, metric: str, estimates: Sequence[Estimate]) -> list[Row]:
    """A row for the mean and for each end of the interval."""
    return [
        row(name, metric, [one.mean or 0.0 for one in estimates]),
        row(name, f"{metric}, low", [one.low or 0.0 for one in estimates]),
        row(name, f"{metric}, high", [one.high or 0.0 for one in estimates]),
    ]


def _claims(trials: Sequence[PlantTrial]) -> list[Claim]:
    """The planted stage is ranked first, and the gain is as predicted, in every world."""
    first, count = trials[0], len(trials)
    name, stage = f"{first.plant}, {first.relevant}", STAGES[first.plant]
    difference = float(np.mean([float(one.oracle.mean or 0.0) - one.gain for one in trials]))
    below = sum(one.gain <= float(one.oracle.high or 0.0) for one in trials)
    inside = sum(one.predicted for one in trials)
    note = f"predicted minus measured; measured within the oracle's interval in {inside} of {count} worlds"
    note += f", not above it in {below}" if first.relevant == NEXT else ""
    note += f"; a perfect stage would still gain {np.mean([one.left for one in trials]):.4f} after the fix"
    return [
        _first(f"{name}: ranked first", stage, [one.ranked_first for one in trials]),
        _first(f"{name}: the largest gain of an oracle", stage, [one.largest for one in trials]),
        claim(f"{name}: gain as predicted", SOURCE, inside == count, difference, note),
        *([_knob_claim(name, trials)] if first.plant in OPENED else []),
    ]


def _knob_claim(name: str, trials: Sequence[PlantTrial]) -> Claim:
    """Opening the stage gains as much as the fix: irrelevant items come in either way."""
    inside = sum(one.knob_predicted for one in trials)
    difference = float(np.mean([float(one.knob.mean or 0.0) - one.gain for one in trials]))
    note = f"gain of the best knob minus measured; measured within its interval in {inside} of {len(trials)} worlds"
    return claim(f"{name}: gain as the best knob measures", SOURCE, inside == len(trials), difference, note)


def _first(name: str, stage: str, found: Sequence[str]) -> Claim:
    """A stage comes first in every world."""
    right = sum(one == stage for one in found)
    others = sorted(set(found) - {stage})
    also = f"; else {', '.join(others)}" if others else ""
    note = f"{stage!r} in {right} of {len(found)} worlds{also}"
    return claim(name, SOURCE, right == len(found), right / len(found), note)
