"""One weak stage planted in a pipeline that knows the world: is it named, and does mending it bring what it should."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Candidates, Dataset, HeldOut, Interactions, Query
from shortlist.diagnose.diagnosis import diagnose
from shortlist.diagnose.findings.findings import advice
from shortlist.diagnose.follow_items import follow
from shortlist.diagnose.knobs.rewritten import exchanged, exchanged_step
from shortlist.diagnose.sample import UserSample, panel
from shortlist.diagnose.what_if import what_if
from shortlist.errors import ConfigError
from shortlist.grammar import Nominator, Pipeline, Scorer, Stage, as_pipeline
from shortlist.lab.result import claim, result, row, start
from shortlist.progress import Progress, silent, tracked
from shortlist.simulate import World, make_world, simulate_log
from shortlist.stages import Available, Seen
from shortlist.stages.explore import gumbel

SIZES = {  # users, items, categories, events
    "quick": (200, 240, 12, 6_000),
    "full": (1000, 1200, 24, 60_000),
}
WANTED = 10  # items a user likes most, in the world where that is what is wanted
SLATE = 20
SMALL_CUT = 12  # enough for what is wanted, were it all put first
NOISE = {"near": 1.0, "prerank": 1.0, "rank": 0.25}  # of Gumbel noise on log-odds; set once, not tuned
PLANTS = ("nominator", "filter", "pre-ranker", "cut", "ranker")
STAGES = {
    "nominator": "pool",
    "filter": "available",
    "pre-ranker": "prerank",
    "cut": "prerank",
    "ranker": "rank",
}
WANTS = ("liked", "met")
OPENED = ("nominator", "filter", "pre-ranker", "cut")  # what can be let wide open; a last ranker cannot
NO_KNOB: Mapping[str, float | None] = {"mean": 0.0, "low": 0.0, "high": 0.0}
SOURCE = "a planted weak stage, simulated world"


def planted_stage(
    data: Path | None, profile: str = "quick", seeds: Sequence[int] = (0, 1, 2), progress: Progress = silent
) -> dict[str, Any]:
    """A new world for every seed; each weak stage is planted alone, diagnosed, mended and measured on the same users.

    Mended means: the stage is what it is in the healthy pipeline, everything else as it was. The nominator covers all
    of the catalogue and not half of it; the filter lets all items through and not two in three; pre-ranker and ranker
    know the world, with some noise, instead of nothing; the cut keeps a quarter of the catalogue and not 12 items. An
    oracle loses nothing, so healthy stages are made to lose next to nothing; what they lose is part of the difference.

    What users want is either what they like most ("liked"), or what they met next in the log ("met"), which is drawn by
    chance from what they like. An oracle lets in only what is wanted, a mended stage also lets in rivals that nobody
    wanted. Rivals of what is liked most are liked less and push nothing out, so the oracle should foretell the gain;
    rivals of what was met are often liked more, so it is an upper bound. A knob that lets the stage wide open lets
    rivals in, too, and knows no answers: it should gain what mending does. `data` is not needed.
    """
    began = start()
    if profile not in SIZES:
        raise ConfigError(f"planted-stage: expected the profile quick or full, got {profile!r}")
    tries = [found for seed in tracked(seeds, "planted-stage", progress) for found in _tried(profile, seed)]
    rows, claims = [], []
    for wants in WANTS:
        for plant in PLANTS:
            some = [one for one in tries if (one.wants, one.plant) == (wants, plant)]
            rows += _rows(some)
            claims += _claims(some)
    return result("planted-stage", profile, seeds, began, rows, claims)


@dataclass(frozen=True)
class Tried:
    """One weak stage in one world."""

    plant: str
    wants: str
    named: str  # the stage the diagnosis names first
    largest: str  # the stage whose oracle would gain most
    knob: Mapping[str, float | None]  # what the best knob of the stage gained, or leaving out its rule
    recall: float
    mended: float
    oracle: Mapping[str, float | None]  # the foretold gain with its interval
    left: float  # what a perfect stage would still gain where this one is mended

    @property
    def gain(self) -> float:
        """What mending really brought."""
        return self.mended - self.recall

    @property
    def inside(self) -> bool:
        """Whether that lies within the interval of what the oracle foretold."""
        return _within(self.oracle, self.gain)

    @property
    def turned(self) -> bool:
        """Whether it lies within the interval of what the best knob gained."""
        return _within(self.knob, self.gain)


def _within(told_of: Mapping[str, float | None], value: float) -> bool:
    low, high = told_of["low"], told_of["high"]
    return low is not None and high is not None and low <= value <= high


def _tried(profile: str, seed: int) -> list[Tried]:
    n_users, n_items, n_categories, n_events = SIZES[profile]
    world = make_world(n_users, n_items, n_categories, seed)
    dataset = simulate_log(world, n_events, seed)
    healthy = pipeline_of(world, dataset)
    found = []
    for wants in WANTS:
        cases = cases_of(world, dataset, wants)
        one = panel(cases, n_items, seed=seed)
        mended = Mended.of(healthy, one)
        found += [_told(mended, one, plant, wants, dataset) for plant in PLANTS]
    return found


@dataclass(frozen=True, eq=False)
class Mended:
    """The healthy pipeline on a panel."""

    pipeline: Pipeline
    recall: float
    left: Mapping[str, float]  # by stage, what its oracle would still gain

    @classmethod
    def of(cls, healthy: Pipeline, one: UserSample) -> "Mended":
        followed = follow(healthy, one)
        ifs = zip(followed.seats, what_if(healthy, one, followed), strict=True)
        left = {seat.name: float(each.oracle.mean or 0.0) for seat, each in ifs if each.oracle is not None}
        return cls(healthy, float(followed.returned(len(one)).sum() / one.wanted.sum()), left)


def _told(mended: Mended, one: UserSample, plant: str, wants: str, dataset: Dataset) -> Tried:
    """One plant diagnosed."""
    weak, name = planted(mended.pipeline, plant, one.n_items, one.seed), STAGES[plant]
    known = (dataset.events, dataset.catalog)
    answer = diagnose(weak, one.cases, *known, users=one.n_users, seed=one.seed).as_dict()
    stages = {stage["name"]: stage["what_if"]["oracle"] for stage in answer["stages"]}
    turned = {"pool": ("pool", "near")}.get(name, (name,))
    gains = [knob["gain"] for knob in answer["knobs"] + answer["rules"] if knob["stage"] in turned]
    return Tried(
        plant,
        wants,
        advice(answer)[0].stage,
        max(stages, key=lambda each: float(stages[each]["mean"])),
        max(gains, key=lambda one: one["mean"] or 0.0, default=NO_KNOB),
        answer["recall"]["mean"],
        mended.recall,
        stages[name],
        mended.left[name],
    )


def pipeline_of(world: World, dataset: Dataset) -> Pipeline:
    """Stages that know the truth of the world but for some noise."""
    everything = torch.ones(world.n_items, dtype=torch.bool)
    category = torch.from_numpy(dataset.catalog.category_rows.copy())
    stages: Stage = Near(world, everything, NOISE["near"], 1, name="near", limit=world.n_items // 2)
    stages = stages >> Seen(name="seen") >> Available(everything, category, name="available")
    stages = stages >> Judge(world, NOISE["prerank"], 2, name="prerank") % (world.n_items // 4)
    return as_pipeline(stages >> Judge(world, NOISE["rank"], 3, name="rank") % SLATE)


def planted(healthy: Pipeline, plant: str, n_items: int, seed: int) -> Pipeline:
    """The same pipeline with one weak stage."""
    chance = torch.rand(n_items, generator=torch.Generator().manual_seed(seed))
    name = {"nominator": "near", "filter": "available"}.get(plant, STAGES[plant])
    if plant == "cut":
        at = [stage.title for stage in healthy.stages].index(name)
        return exchanged_step(healthy, at, lambda stage: stage.renewed(k=SMALL_CUT))
    changes: dict[str, dict[str, Any]] = {
        "nominator": {"covered": chance < 1 / 2},
        "filter": {"allowed": chance < 2 / 3},
        "pre-ranker": {"knows": False},
        "ranker": {"knows": False},
    }
    return exchanged(healthy, name, lambda stage: stage.renewed(**changes[plant]))


@dataclass(frozen=True, eq=False, repr=False)
class Near(Nominator):
    """The items a user likes most, with some noise, of those it covers."""

    world: World
    covered: Tensor  # [N] bool
    noise: float = 1.0
    salt: int = 0

    def nominate(self, query: Query) -> Candidates:
        items = torch.arange(self.world.n_items).expand(len(query), -1)
        scores = liking(self.world, query, items) + self.noise * _chance(query, items, self.salt)
        best = scores.masked_fill(~self.covered, -torch.inf).sort(dim=1, descending=True, stable=True)
        named = best.indices.masked_fill(best.values == -torch.inf, -1)[:, : self.limit]
        return Candidates.of(named, best.values[:, : self.limit].masked_fill(named < 0, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class Judge(Scorer):
    """What a user likes, with some noise; or noise alone."""

    world: World
    noise: float = 1.0
    salt: int = 0
    knows: bool = True

    def score(self, query: Query, found: Candidates) -> Tensor:
        items = found.items.clamp(min=0)
        noise = _chance(query, items, self.salt)
        return liking(self.world, query, items) + self.noise * noise if self.knows else noise


def liking(world: World, query: Query, items: Tensor) -> Tensor:
    """Log-odds that a user takes each item [B, K] at the time of the request; what is not born is last."""
    taken = world.affinity(query.user.numpy(), items.numpy(), query.time.numpy())
    return torch.from_numpy(np.log(taken.clip(1e-12)) - np.log1p(-taken)).to(torch.float32)


def cases_of(world: World, dataset: Dataset, wants: str) -> HeldOut:
    """One case per user: the first half of the log, then what is wanted and was not met before."""
    events, people = dataset.events, []
    for user in np.flatnonzero(events.lengths >= 2):
        begin, stop = events.starts[user], events.starts[user + 1]
        cut = begin + (stop - begin) // 2
        met = events.items[begin:cut].astype(np.int64)
        wanted = (
            _liked(world, int(user), met, int(events.times[cut]))
            if wants == "liked"
            else _next(events, cut, stop, met)
        )
        if len(wanted):
            people.append((user, met, wanted, events.times[begin:cut], events.times[cut]))
    return _cases(people, events)


def _liked(world: World, user: int, met: NDArray[np.int64], time: int) -> NDArray[np.int64]:
    """What the user likes most of what was not met yet."""
    best: NDArray[np.int64] = world.best(np.array([user]), time, WANTED + len(met))[0]
    return best[~np.isin(best, met) & (best >= 0)][:WANTED]


def _next(events: Interactions, cut: int, stop: int, met: NDArray[np.int64]) -> NDArray[np.int64]:
    later = events.items[cut:stop].astype(np.int64)
    return np.unique(later[~np.isin(later, met)])


def _cases(people: list[tuple[Any, ...]], events: Interactions) -> HeldOut:
    """Cases over events of their own."""
    users = np.concatenate([np.full(len(met) + len(wanted), user) for user, met, wanted, _, _ in people])
    items = np.concatenate([np.concatenate([met, wanted]) for _, met, wanted, _, _ in people])
    times = np.concatenate(
        [np.concatenate([before, np.full(len(wanted), at)]) for _, _, wanted, before, at in people]
    )
    made = Interactions.of(users, items, times, n_users=events.n_users, n_items=events.n_items)
    rows = np.array([user for user, *_ in people])
    cuts = made.starts[rows] + np.array([len(met) for _, met, *_ in people])
    return HeldOut(made, made.starts[rows], cuts, made.starts[rows + 1])


def _chance(query: Query, items: Tensor, salt: int) -> Tensor:
    return gumbel(query.seed * 1009 + salt, items)


def _rows(some: Sequence[Tried]) -> list[dict[str, Any]]:
    name = f"{some[0].plant}, {some[0].wants}"
    foretold = {what: [float(one.oracle[what] or 0.0) for one in some] for what in ("mean", "low", "high")}
    return [
        row(name, "recall, weak", [one.recall for one in some]),
        row(name, "recall, mended", [one.mended for one in some]),
        row(name, "gain, measured", [one.gain for one in some]),
        row(name, "gain, foretold", foretold["mean"]),
        row(name, "gain, foretold, low", foretold["low"]),
        row(name, "gain, foretold, high", foretold["high"]),
        row(name, "gain, left after mending", [one.left for one in some]),
        *(
            row(name, f"gain, best knob{end}", [float(one.knob[what] or 0.0) for one in some])
            for what, end in (("mean", ""), ("low", ", low"), ("high", ", high"))
        ),
    ]


def _claims(some: Sequence[Tried]) -> list[dict[str, Any]]:
    """That the stage is named first, and that the gain lies where it was foretold, in every world."""
    one, count = some[0], len(some)
    name, place = f"{one.plant}, {one.wants}", STAGES[one.plant]
    apart = float(np.mean([float(each.oracle["mean"] or 0.0) - each.gain for each in some]))
    below = sum(each.gain <= float(each.oracle["high"] or 0.0) for each in some)
    inside = sum(each.inside for each in some)
    note = f"foretold less measured; measured within the oracle's interval in {inside} of {count} worlds"
    note += f", not above it in {below}" if one.wants == "met" else ""
    note += f"; a perfect stage would still gain {np.mean([each.left for each in some]):.4f} after mending"
    return [
        _first(f"{name}: named first", place, [each.named for each in some]),
        _first(f"{name}: the largest gain of an oracle", place, [each.largest for each in some]),
        claim(f"{name}: gain as foretold", SOURCE, inside == count, apart, note),
        *([_turned(name, some)] if one.plant in OPENED else []),
    ]


def _turned(name: str, some: Sequence[Tried]) -> dict[str, Any]:
    """That letting the stage wide open gains what mending it does: rivals come in either way."""
    right = sum(each.turned for each in some)
    apart = float(np.mean([float(each.knob["mean"] or 0.0) - each.gain for each in some]))
    note = (
        f"gain of the best knob less measured; measured within its interval in {right} of {len(some)} worlds"
    )
    return claim(f"{name}: gain as the best knob measures", SOURCE, right == len(some), apart, note)


def _first(name: str, place: str, named: Sequence[str]) -> dict[str, Any]:
    """The claim that a stage comes first in every world."""
    right = sum(each == place for each in named)
    others = sorted(set(named) - {place})
    also = f"; else {', '.join(others)}" if others else ""
    note = f"{place!r} in {right} of {len(named)} worlds{also}"
    return claim(name, SOURCE, right == len(named), right / len(named), note)
