"""Flags come from a retriever that was not trained on the instance."""

import numpy as np
import pytest
import torch
from torch import Tensor

from shortlist.data import Interactions, Windows, sliding
from shortlist.errors import ArtifactError, ConfigError, DataError
from shortlist.train.rankers.training_data.retrieved import (
    NO_FOLD,
    SCHEMES,
    Flags,
    Retrieve,
    flag_folds,
    fold_of,
    rank_of,
    retrieved_flags,
)

USERS, ITEMS = 12, 30


def log(seed: int = 0, shuffled: int | None = None) -> Interactions:
    """A log of twelve users; `shuffled` is a fold whose items are sampled again."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(USERS), 10)
    items = rng.integers(0, ITEMS, len(users))
    if shuffled is not None:
        where = fold_of(USERS, 3, 0)[users] == shuffled
        items[where] = np.random.default_rng(99).integers(0, ITEMS, int(where.sum()))
    return Interactions.of(users, items, np.tile(np.arange(10), USERS) * 7 + users, None, USERS, ITEMS)


class Popular:
    """A retriever of the most popular items that records its training events."""

    def __init__(self, windows: Windows) -> None:
        self.windows, self.trained_on = windows, list[Interactions]()

    def __call__(self, events: Interactions, fold: int) -> tuple[Retrieve, str]:
        self.trained_on.append(events)
        best = torch.from_numpy(np.argsort(-events.popularity, kind="stable").copy())

        def retrieve(rows: np.ndarray) -> Tensor:
            return best.expand(len(rows), -1)

        return retrieve, events.fingerprint


def flags_of(scheme: str, most: int = 10, **given: int) -> tuple[Popular, Flags]:
    windows = sliding(log(), 6, 2)
    popular = Popular(windows)
    rows = np.arange(len(windows))
    return popular, retrieved_flags(windows, rows, popular, most, scheme=scheme, folds=3, **given)


def test_no_retriever_is_trained_on_the_users_it_retrieves_for() -> None:
    windows = sliding(log(), 6, 2)
    for events, rows in flag_folds(windows, np.arange(len(windows)), "crossfit", 3, 0):
        users = windows.events.users[windows.ends[rows]]
        assert not set(users) & set(events.users)


def test_every_instance_is_retrieved_for_once() -> None:
    popular, flags = flags_of("crossfit")
    assert set(flags.fold.tolist()) == {0, 1, 2}
    assert flags.known.all()
    assert len(popular.trained_on) == 3
    assert len(set(flags.made.sources)) == 3


def test_targets_of_a_fold_do_not_change_its_retriever() -> None:
    """I32: the retriever that flags a fold never reads it."""
    sources = []
    for shuffled in (None, 1):
        windows = sliding(log(shuffled=shuffled), 6, 2)
        flags = retrieved_flags(windows, np.arange(len(windows)), Popular(windows), 5, folds=3)
        sources.append(flags.made.sources)
    assert sources[0][1] == sources[1][1]
    assert sources[0][0] != sources[1][0]
    assert sources[0][2] != sources[1][2]


def test_holdout_has_one_retriever_for_all_other_users() -> None:
    popular, flags = flags_of("holdout")
    assert len(popular.trained_on) == 1
    assert 0 < flags.known.sum() < len(flags.fold)
    assert set(flags.fold[~flags.known]) == {NO_FOLD}
    assert (flags.rank[~flags.known] == -1).all()


def test_temporal_retrieves_for_later_instances_only() -> None:
    windows = sliding(log(), 6, 2)
    ((events, rows),) = flag_folds(windows, np.arange(len(windows)), "temporal", 3, 0)
    assert events.times.max() < windows.events.times[windows.ends[rows]].min()


def test_in_sample_trains_on_all_events() -> None:
    popular, flags = flags_of("in-sample")
    assert popular.trained_on[0].fingerprint == log().fingerprint
    assert flags.known.all()


def test_rank_gives_the_hits_of_every_smaller_k() -> None:
    _, flags = flags_of("crossfit", most=20)
    labels = sliding(log(), 6, 2).targets
    for k in (1, 7, 20):
        slow = [labels[row] in flags.found[row, :k].tolist() for row in range(len(labels))]
        assert flags.hit(k).tolist() == slow
    with pytest.raises(ConfigError, match="at most 20"):
        flags.hit(21)


def test_flags_of_a_different_system_are_refused() -> None:
    """I33."""
    _, flags = flags_of("crossfit", beam=8)
    assert flags.check(most=10, beam=8, scheme="crossfit") is flags
    with pytest.raises(ArtifactError, match=r"beam 8, not 16.*make them again"):
        flags.check(beam=16)
    with pytest.raises(ArtifactError, match="a different system"):
        flags.check(data="other")
    with pytest.raises(ConfigError, match="unknown setting colour"):
        flags.check(colour="red")


def test_folds_have_nearly_equal_size() -> None:
    counts = np.bincount(fold_of(10, 3, 0))
    assert sorted(counts.tolist()) == [3, 3, 4]
    with pytest.raises(ConfigError, match="2 or more"):
        fold_of(10, 1, 0)


def test_too_many_folds_are_refused() -> None:
    windows = sliding(log(), 6, 2)
    with pytest.raises(DataError, match="use fewer folds than 40"):
        retrieved_flags(windows, np.arange(len(windows)), Popular(windows), 5, folds=40)


def test_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match=SCHEMES[0]):
        flags_of("sideways")


def test_ranks_of_targets() -> None:
    found = torch.tensor([[3, 1, -1], [2, 5, 4]], dtype=torch.int32)
    assert rank_of(found, torch.tensor([1, 9])).tolist() == [1, -1]
