"""A model with random weights and a stream of events for the benchmark of user states."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Vocabulary
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.state import EventLog, StateSettings, UserEvent, UserHistories, UserStateStore

NOW_MS = 1_800_000_000_000
FIRST_MS = 1_700_000_000_000
SPACING_MS = 50  # between two events of the stream
SKEW = 1.1  # exponent of the activity of users


@dataclass(frozen=True)
class Size:
    """How large the benchmark is."""

    width: int = 64
    items: int = 10_000
    users: int = 20_000
    active: int = 2_000  # users with a vector of their own
    events: int = 200_000  # per measurement in batches
    single: int = 5_000  # per measurement one at a time
    repeats: int = 3
    replayed: int = 1_000_000  # deliveries of the shuffled log
    distinct: int = 800_000  # events in it


@dataclass(frozen=True, eq=False)
class Stream:
    """Events in the order of time, as columns."""

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    times: NDArray[np.int64]
    ids: NDArray[np.int64]

    def take(self, rows: NDArray[np.int64]) -> "Stream":
        """Some of the events."""
        return Stream(self.users[rows], self.items[rows], self.times[rows], self.ids[rows])

    def events(self) -> list[UserEvent]:
        """The events as objects."""
        columns = (one.tolist() for one in (self.users, self.items, self.times, self.ids))
        return [UserEvent(*one) for one in zip(*columns, strict=True)]


def random_model(size: Size, seed: int) -> TwoTimeScale:
    """A model of the default readout; its active users are the first ones."""
    torch.manual_seed(seed)
    config = TwoTimeScaleConfig(
        n_items=size.items, n_users=size.users, n_active=size.active, width=size.width, threshold=1_000_000
    )
    model = TwoTimeScale(config).eval()
    with torch.no_grad():
        for values in (model.items, model.own, model.start):
            values.normal_(std=0.5)
        model.own_row[: size.active] = torch.arange(size.active)
    return model


def random_stream(size: Size, count: int, seed: int) -> Stream:
    """Events of users whose activity falls with a power, of any item."""
    rng = np.random.default_rng((seed, count))
    weights = np.arange(1, size.users + 1) ** -SKEW
    users = rng.permutation(size.users)[rng.choice(size.users, count, p=weights / weights.sum())]
    times = FIRST_MS + SPACING_MS * np.arange(count)
    return Stream(users, rng.integers(0, size.items, count), times, rng.permutation(count))


def empty_store(
    model: TwoTimeScale, size: Size, storage: str = "fp32", log: EventLog | None = None
) -> UserStateStore:
    """A store whose bundle has users without histories."""
    users, items = Vocabulary.of(range(size.users)), Vocabulary.of(range(size.items))
    nothing = torch.zeros(0, dtype=torch.int64)
    histories = UserHistories(torch.zeros(size.users + 1, dtype=torch.int64), nothing)
    return UserStateStore(model, users, items, histories, "random", StateSettings(storage=storage), log)
