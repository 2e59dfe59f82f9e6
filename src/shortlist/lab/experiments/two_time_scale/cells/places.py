"""Where the systems of the two-time-scale tables are compared: MovieLens-1M, and worlds of drifting tastes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.data.read import read
from shortlist.data.time_split import TimeSplit, time_split
from shortlist.errors import ConfigError
from shortlist.evaluate.online import OnlineTest
from shortlist.simulate.drift import SIZES, DriftSettings, DriftWorld, make_drift_world
from shortlist.train.loop.device import device_of
from shortlist.train.two_time_scale.validation import MOST_EVENTS

MOVIELENS, FULL, TENTH, UNIT, TINY = "ml-1m", "world-full", "world-tenth", "world-unit", "world-tiny"
VALID_EVENTS = (
    8000  # about so many validation events stop trainings early and choose settings, all the same ones
)
OFFERS = "offers"
KEPT = 2  # data sets that a process keeps: 1 GB each at full size


@dataclass(frozen=True)
class Budget:
    """The sizes of every training at a place, the same for all systems."""

    width: int
    epochs: int  # at most: more than early stopping needs
    patience: int
    threshold: int  # t*: users with more training events are active
    batch_events: int  # of a step of the recurrences; the factorisation has a quarter
    sequences: int  # of a step of sequence models
    loss: str = "softmax"  # of all systems but the factorisation: over all items, or over sampled offers
    window: int = 200  # longest history
    negatives: int = 512  # uniform ones of the factorisation
    test_users: int = 0  # of the test, at random; 0: all


@dataclass(frozen=True)
class Place:
    """Data, and the budget of trainings on it."""

    name: str
    budget: Budget
    world: DriftSettings | None = None  # None: MovieLens-1M

    def __str__(self) -> str:
        return self.name

    @property
    def repeats(self) -> bool:
        """Whether users take items again: then early stopping counts them."""
        return self.world is not None

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the data of a seed."""
        return {"world": asdict(self.world) if self.world else None, **asdict(self.budget)}


BUDGETS: Mapping[str, Budget] = {
    MOVIELENS: Budget(64, 100, 4, 100, 4096, 32),
    FULL: Budget(32, 40, 2, 50, 8192, 128, OFFERS, test_users=5000),
    TENTH: Budget(32, 60, 3, 50, 8192, 128, OFFERS, test_users=5000),
    UNIT: Budget(16, 200, 5, 50, 2048, 32),
    TINY: Budget(8, 2, 2, 20, 512, 16, window=30, negatives=32),
}
WORLDS: Mapping[str, DriftSettings] = {
    FULL: SIZES["full"],
    TENTH: SIZES["tenth"],
    UNIT: SIZES["unit"],
    TINY: SIZES["tiny"],
}


def place_for(experiment: str, profile: str, data: Path | None, where: str) -> Place:
    """The place of an experiment: the tiny world in the quick profile, and `where` in the full one."""
    if profile == "quick":
        return place_of(TINY)
    if profile != "full":
        raise ConfigError(f"{experiment}: expected the profile quick or full, got {profile!r}")
    if where == MOVIELENS and data is None:
        raise ConfigError(f"{experiment}: the full profile needs --data, a folder that holds ml-1m")
    return place_of(where)


def name_at(experiment: str, where: str) -> str:
    """The name of an experiment at a place: that on MovieLens-1M has the plain one."""
    return experiment if where == MOVIELENS else f"{experiment}-{where.removeprefix('world-')}"


def place_of(name: str, **changes: Any) -> Place:
    """A place by name, or its world with other settings."""
    if name not in BUDGETS:
        raise ConfigError(f"two time scales: expected a place of {', '.join(BUDGETS)}, got {name!r}")
    world = WORLDS.get(name)
    if not changes or world is None:
        return Place(name, BUDGETS[name], world)
    listed = ",".join(f"{key}={value:g}" for key, value in changes.items())
    return Place(f"{name},{listed}", BUDGETS[name], replace(world, **changes))


@dataclass(frozen=True, eq=False)
class PlaceData:
    """The events of a place with one seed, and what is held out of them."""

    place: Place
    split: TimeSplit
    catalog: Catalog | None
    world: DriftWorld | None

    @cached_property
    def train(self) -> Interactions:
        """The training events."""
        return self.split.train

    @cached_property
    def valid(self) -> HeldOut:
        """Validation events, each a request of its own: trainings stop early by the next event."""
        test, events = self.valid_test, self.split.events
        return HeldOut(events, test.starts, test.positions, test.positions + 1)

    @cached_property
    def valid_users(self) -> HeldOut:
        """The same events with one request per user, for models that predict all events of a user in one pass."""
        requests = self.split.valid_requests()
        requests = requests.take(np.random.default_rng(0).permutation(len(requests)))
        stops = np.minimum(requests.stops, requests.cuts + MOST_EVENTS)
        before = np.cumsum(stops - requests.cuts) - (stops - requests.cuts)
        rows = np.flatnonzero(before < VALID_EVENTS)
        rows = rows[np.argsort(requests.users[rows])]
        return HeldOut(requests.events, requests.starts[rows], requests.cuts[rows], stops[rows])

    @cached_property
    def valid_test(self) -> OnlineTest:
        """The first validation events of random users, the same for all systems."""
        every, requests = OnlineTest.of(self.split, "valid"), self.valid_users
        request = np.searchsorted(requests.users, every.users).clip(max=len(requests) - 1)
        own = requests.users[request] == every.users
        return every.at(np.flatnonzero(own & (every.positions < requests.stops[request])))

    @cached_property
    def test(self) -> OnlineTest:
        """All test events, or those of random users."""
        every, users = OnlineTest.of(self.split), self.place.budget.test_users
        return every.of_users(users) if users else every

    @property
    def threshold(self) -> int:
        """t* of the segments."""
        return self.place.budget.threshold


@lru_cache(maxsize=KEPT)
def data_of(place: Place, seed: int, folder: Path | None, device: str = "auto") -> PlaceData:
    """The data of a place; a world is another one for every seed."""
    if place.world is None:
        return _movielens(place, folder)
    world = make_drift_world(place.world, seed, device_of(device))
    return PlaceData(place, time_split(world.events), None, world)


def place_data(place: Place, seed: int, folder: Path | None, device: str = "auto") -> PlaceData:
    """The same, with one copy of a log that does not depend on the seed."""
    return data_of(place, 0 if place.world is None else seed, folder, device)


def _movielens(place: Place, folder: Path | None) -> PlaceData:
    if folder is None:
        raise ConfigError(f"{place}: the full profile needs --data, a folder that holds ml-1m")
    dataset = read(folder / "ml-1m" / "ml-1m.zip", "movielens", name="ml-1m")
    return PlaceData(place, time_split(dataset.events), dataset.catalog, None)
