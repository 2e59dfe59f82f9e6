"""Flags are asked of a retriever that did not learn from the instance."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shortlist.data import Interactions, Windows, sliding
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.train.rankers.retrieved import (
    NOBODY,
    WAYS,
    Ask,
    Flags,
    fold_of,
    parts_of,
    place_of,
    retrieved_flags,
)

USERS, ITEMS = 12, 30


def log(seed: int = 0, shuffled: int | None = None) -> Interactions:
    """A log of twelve users; `shuffled` names a part whose items are drawn anew."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(USERS), 10)
    items = rng.integers(0, ITEMS, len(users))
    if shuffled is not None:
        where = fold_of(USERS, 3, 0)[users] == shuffled
        items[where] = np.random.default_rng(99).integers(0, ITEMS, int(where.sum()))
    return Interactions.of(users, items, np.tile(np.arange(10), USERS) * 7 + users, None, USERS, ITEMS)


class Popular:
    """A retriever that names what it met most often, and remembers what it was shown."""

    def __init__(self, windows: Windows) -> None:
        self.windows, self.shown = windows, list[Interactions]()

    def __call__(self, events: Interactions, part: int) -> tuple[Ask, str]:
        self.shown.append(events)
        best = torch.from_numpy(np.argsort(-events.popularity, kind="stable").copy())

        def ask(rows: np.ndarray) -> Tensor:
            return best.expand(len(rows), -1)

        return ask, events.fingerprint


def asked(way: str, most: int = 10, **given: int) -> tuple[Popular, Flags]:
    windows = sliding(log(), 6, 2)
    popular = Popular(windows)
    rows = np.arange(len(windows))
    return popular, retrieved_flags(windows, rows, popular, most, way=way, folds=3, **given)


def test_no_retriever_learned_from_whom_it_is_asked_for() -> None:
    windows = sliding(log(), 6, 2)
    for learned, rows in parts_of(windows, np.arange(len(windows)), "crossfit", 3, 0):
        users = windows.events.users[windows.ends[rows]]
        assert not set(users) & set(learned.users)


def test_every_instance_is_asked_for_once() -> None:
    popular, flags = asked("crossfit")
    assert set(flags.fold.tolist()) == {0, 1, 2}
    assert flags.asked.all()
    assert len(popular.shown) == 3
    assert len(set(flags.made.sources)) == 3


def test_other_wants_of_a_part_leave_its_retriever_as_it_was() -> None:
    """I32: the retriever that flags a part never reads it."""
    sources = []
    for shuffled in (None, 1):
        windows = sliding(log(shuffled=shuffled), 6, 2)
        flags = retrieved_flags(windows, np.arange(len(windows)), Popular(windows), 5, folds=3)
        sources.append(flags.made.sources)
    assert sources[0][1] == sources[1][1]
    assert sources[0][0] != sources[1][0]
    assert sources[0][2] != sources[1][2]


def test_holding_out_asks_one_retriever_for_all_others() -> None:
    popular, flags = asked("holdout")
    assert len(popular.shown) == 1
    assert 0 < flags.asked.sum() < len(flags.fold)
    assert set(flags.fold[~flags.asked]) == {NOBODY}
    assert (flags.rank[~flags.asked] == -1).all()


def test_in_time_only_later_instances_are_asked_for() -> None:
    windows = sliding(log(), 6, 2)
    ((learned, rows),) = parts_of(windows, np.arange(len(windows)), "temporal", 3, 0)
    assert learned.times.max() < windows.events.times[windows.ends[rows]].min()


def test_in_sample_everything_is_shown() -> None:
    popular, flags = asked("in-sample")
    assert popular.shown[0].fingerprint == log().fingerprint
    assert flags.asked.all()


def test_the_place_of_an_item_serves_every_smaller_number() -> None:
    _, flags = asked("crossfit", most=20)
    labels = sliding(log(), 6, 2).targets
    for k in (1, 7, 20):
        slow = [labels[row] in flags.found[row, :k].tolist() for row in range(len(labels))]
        assert flags.hit(k).tolist() == slow
    with pytest.raises(ConfigError, match="at most 20"):
        flags.hit(21)


def test_flags_of_another_system_are_refused() -> None:
    """I33."""
    _, flags = asked("crossfit", beam=8)
    assert flags.check(most=10, beam=8, way="crossfit") is flags
    with pytest.raises(ArtifactError, match=r"beam 8, not 16.*make them anew"):
        flags.check(beam=16)
    with pytest.raises(ArtifactError, match="another system"):
        flags.check(data="other")
    with pytest.raises(ConfigError, match="know nothing of colour"):
        flags.check(colour="red")


def test_users_are_dealt_into_parts_of_one_size() -> None:
    counts = np.bincount(fold_of(10, 3, 0))
    assert sorted(counts.tolist()) == [3, 3, 4]
    with pytest.raises(ConfigError, match="2 or more"):
        fold_of(10, 1, 0)


def test_too_many_parts_are_refused() -> None:
    windows = sliding(log(), 6, 2)
    with pytest.raises(DataError, match="use fewer folds than 40"):
        retrieved_flags(windows, np.arange(len(windows)), Popular(windows), 5, folds=40)


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ConfigError, match=WAYS[0]):
        asked("sideways")


def test_places_of_items() -> None:
    found = torch.tensor([[3, 1, -1], [2, 5, 4]], dtype=torch.int32)
    assert place_of(found, torch.tensor([1, 9])).tolist() == [1, -1]
