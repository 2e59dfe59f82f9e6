"""Train one system at one place: counts, one training loop, or two stages with a first stage that variants share."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from shortlist.data.time_split import TimeSplit
from shortlist.evaluate.online import (
    OnlineRanks,
    OnlineTest,
    RecentPopularity,
    ScoresAt,
    TrainPopularity,
    ranks,
)
from shortlist.lab.experiments.two_time_scale.cells.places import Place, PlaceData, place_data
from shortlist.lab.experiments.two_time_scale.cells.refit import refitted_ranks
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    CCF,
    DYNAMIC,
    LAST_CLICK,
    POPULAR,
    RECENT,
    STATIC,
    TWO,
    System,
    rate_of,
    trainer_of,
)
from shortlist.lab.experiments.two_time_scale.cells.warm_up import warm_up
from shortlist.lab.experiments.two_time_scale.cells.watch import Watch
from shortlist.models.model import Model
from shortlist.models.state_model import StateModel
from shortlist.simulate.drift import Oracle
from shortlist.train.loop.checkpoint import LoopState
from shortlist.train.loop.convergence import history_of
from shortlist.train.loop.device import device_of
from shortlist.train.loop.trainer import Fit
from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer
from shortlist.train.two_time_scale.training import Training

DAY = 24 * 3600 * 1000  # milliseconds
WINDOWS = (1, 7, 30, 90)  # days of trailing popularity, chosen on validation
FIRST = "first stage"
KEPT = 16  # first stages, and recurrences, that a process keeps


@dataclass(frozen=True, eq=False)
class Trained:
    """A system that was trained, and facts about its training."""

    model: Model | ScoresAt
    facts: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class FirstStage:
    """A factorisation, and how long it took."""

    model: Any
    seconds: float


def train_cell(
    place: Place, system: System, seed: int, rate: float | None, folder: Path | None, device: str = "auto"
) -> Trained:
    """A trained system with seconds by stage, the metric over time, and the training history."""
    data = place_data(place, seed, folder, device)
    warm_up(device_of(device))
    if system.model in (POPULAR, RECENT, DYNAMIC, STATIC):
        return _counted(system, data)
    if system.model == TWO:
        return _two_stages(place, system, seed, rate, folder, device)
    if system.model == CCF:
        first = known_first_stage(place, system, seed, rate, folder, device)
        return Trained(first.model, _facts(first.model, trainer_of(system, place, rate), _watch_of(first)))
    trainer, watch = trainer_of(system, place, rate), Watch()
    watch.begin()
    if system.model == LAST_CLICK:
        return Trained(trainer.learn(data.train).to(device_of(device)), {})
    model = trainer.with_settings(device=device).learn(
        data.train, data.valid, seed, watch, watch.validated, catalog=data.catalog
    )
    return Trained(model, _facts(model, trainer, watch))


@lru_cache(maxsize=KEPT)
def known_first_stage(
    place: Place, system: System, seed: int, rate: float | None, folder: Path | None, device: str
) -> FirstStage:
    """The factorisation under a system; variants with the same features and correction share it in a process."""
    data, watch = place_data(place, seed, folder, device), Watch()
    trainer = trainer_of(system, place, rate)
    watch.begin()
    model = trainer.with_settings(device=device).learn(
        data.train, data.valid, seed, watch, watch.validated, catalog=data.catalog
    )
    return FirstStage(model, watch.seconds)


@dataclass(frozen=True, eq=False)
class Shared:
    """What variants share: the first stage and, where it does not depend on them, the recurrence of all users."""

    first: FirstStage
    everyone: Any | None
    state: LoopState | None  # of the training of this recurrence
    watch: Watch  # of both

    def given_to(self, training: Training) -> None:
        """Let a training begin with them."""
        training.first = self.first.model
        if self.everyone is not None:
            training.everyone, training.state = self.everyone, self.state


@lru_cache(maxsize=KEPT)
def known_recurrence(
    place: Place, base: System, seed: int, rate: float | None, folder: Path | None, device: str
) -> Shared:
    """The recurrence of all users over a first stage; trained once in a process."""
    shared = _first_of(place, base, seed, folder, device)
    training, watch = _training(place, base, seed, rate, folder, device, shared)
    everyone = training.everyone
    return Shared(shared.first, everyone, training.state, watch)


def _two_stages(
    place: Place, system: System, seed: int, rate: float | None, folder: Path | None, device: str
) -> Trained:
    """Recurrences over the vectors of a first stage; the seconds of what variants share count for each."""
    shared = None
    if system.base is not None:
        own_rate = rate or rate_of(system, place)
        shared = known_recurrence(place, system.base, seed, own_rate, folder, device)
    elif system.settings.get("stages") != "one":
        shared = _first_of(place, system, seed, folder, device)
    training, watch = _training(place, system, seed, rate, folder, device, shared)
    model = training.run().finished()
    groups = {"threshold": model.config.threshold, "active users": int(model.config.n_active)}
    anchor = {"anchor": float(model.anchor.detach())} if hasattr(model, "anchor") else {}
    return Trained(model, {**_facts(model, training.trainer, watch), **groups, **anchor})


def _first_of(place: Place, system: System, seed: int, folder: Path | None, device: str) -> Shared:
    first = known_first_stage(place, system.first, seed, None, folder, device)
    return Shared(first, None, None, _watch_of(first))


def _training(
    place: Place,
    system: System,
    seed: int,
    rate: float | None,
    folder: Path | None,
    device: str,
    shared: Shared | None,
) -> tuple[Training, Watch]:
    """A training with what it shares, and a watch that goes on after that."""
    data = place_data(place, seed, folder, device)
    trainer = trainer_of(system, place, rate).with_settings(device=device)
    watch = Watch() if shared is None else shared.watch.copy()
    fit = Fit(data.train, data.valid_users, seed, watch, watch.validated, catalog=data.catalog)
    assert isinstance(trainer, TwoTimeScaleTrainer)
    training = Training(trainer, fit)
    if shared is not None:
        shared.given_to(training)
    watch.begin()
    return training, watch


def _watch_of(first: FirstStage) -> Watch:
    """A watch that goes on after a first stage."""
    return Watch(stages={FIRST: first.seconds})


def _facts(model: Any, trainer: Any, watch: Watch) -> dict[str, Any]:
    epochs = getattr(trainer, "epochs", 0)
    validation = getattr(model, "validation", ())
    history = history_of(validation, epochs, trainer.patience, getattr(model, "summary", None))
    seconds = {"seconds by stage": watch.stages, "seconds": watch.seconds}
    return {**seconds, "history": history, **peak_memory()}


def _counted(system: System, data: PlaceData) -> Trained:
    if system.model == POPULAR:
        return Trained(TrainPopularity(data.train), {})
    if system.model == RECENT:
        window = best_window(data)
        return Trained(RecentPopularity(data.split.events, window * DAY), {"days": window})
    assert data.world is not None
    kind = "dynamic" if system.model == DYNAMIC else "static"
    return Trained(Oracle(data.world, kind, device_of("auto")), {})


def best_window(data: PlaceData) -> int:
    """The days of trailing popularity with the best reciprocal rank on validation events."""
    values = {days: validated(RecentPopularity(data.split.events, days * DAY), data) for days in WINDOWS}
    return max(values, key=lambda days: values[days])


def ranks_of(
    model: Any, test: OnlineTest, refit: bool = False, n_neg: int = 0, sampled_events: int | None = None
) -> OnlineRanks:
    """Ranks of a test, where users get new own vectors with `refit`."""
    ranked = refitted_ranks if refit else ranks
    return ranked(model, test, n_neg, sampled_events=sampled_events)


def validated(model: Model | ScoresAt, data: PlaceData, refit: bool = False) -> float:
    """The mean reciprocal rank of validation events: among all items, or without consumed ones where none repeats."""
    found = ranks_of(model, data.valid_test, refit)
    return float((1 / (found.raw if data.place.repeats else found.excl)).mean())


def steps_since_base(model: Any, split: TimeSplit, numbers: Any, users: Any) -> Any:
    """Events of active users since their base, before each evaluated event [n]; -1 for all others."""
    if not isinstance(model, StateModel):
        return None
    rows = torch.from_numpy(users).to(model.device)
    base = model.base_events(rows).cpu().numpy()
    active = model.active(rows).cpu().numpy()
    steps = numbers - 1 - base
    steps[~active] = -1
    return steps


def peak_memory() -> dict[str, float]:
    """Largest memory of a cell on a GPU in megabytes; that of a process would be the largest of all its cells."""
    return {"memory": torch.cuda.max_memory_allocated() / 2**20} if torch.cuda.is_available() else {}
