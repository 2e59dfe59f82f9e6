"""Which training targets a retriever retrieves, from a retriever that was not trained on them.

A retriever retrieves targets it was trained on more often than new ones, so flags from its training data would train a
ranker for a retriever that is never served. All schemes but `in-sample` use a retriever whose training, item vectors
and tree included, never saw the instance.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shortlist.data import Interactions, Windows
from shortlist.errors import ArtifactError, ConfigError, DataError

SCHEMES = ("crossfit", "holdout", "temporal", "in-sample")
NO_FOLD = 255  # the fold of an instance without retrieved items
EARLIER = 0.5  # share of the events before the cut of "temporal"

Rows = NDArray[np.int64]
Retrieve = Callable[[Rows], Tensor]
"""Instances -> retrieved items of each [m, most], best first, -1 = none."""

Fit = Callable[[Interactions, int], tuple[Retrieve, str]]
"""Training events and the number of the fold -> a retriever, and a checksum of its weights."""


@dataclass(frozen=True)
class FlagSettings:
    """How flags were made; they are valid only for a system that retrieves the same way."""

    scheme: str
    most: int  # items retrieved per instance
    beam: int
    exclude: str  # items that are never retrieved: nothing, history, everything seen
    folds: int
    seed: int
    data: str  # fingerprint of the events
    sources: tuple[str, ...]  # a checksum of every retriever


@dataclass(frozen=True, eq=False)
class Flags:
    """The rank of every instance's target among its retrieved items; one pass is enough for every smaller K."""

    rank: NDArray[np.int16]  # [m], from 0, -1 = not retrieved
    fold: NDArray[np.uint8]  # [m]
    found: Tensor  # int32 [m, most]
    made: FlagSettings

    def hit(self, k: int) -> NDArray[np.bool_]:
        """Whether the target is among the first k [m]."""
        if not 1 <= k <= self.made.most:
            raise ConfigError(
                f"flags: made for at most {self.made.most} retrieved items, requested {k}; make them again"
            )
        return (self.rank >= 0) & (self.rank < k)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether items were retrieved for the instance [m]."""
        return np.asarray(self.fold != NO_FOLD)

    def check(self, **expected: Any) -> "Flags":
        """Refuse flags that were made for a different system."""
        made = asdict(self.made)
        if unknown := sorted(set(expected) - set(made)):
            raise ConfigError(
                f"flags: unknown setting {', '.join(unknown)}; expected some of {', '.join(made)}"
            )
        wrong = [name for name, value in expected.items() if made[name] != value]
        if wrong:
            reason = ", ".join(f"{name} {made[name]!r}, not {expected[name]!r}" for name in wrong)
            raise ArtifactError(f"flags: made for a different system ({reason}); make them again")
        return self


def retrieved_flags(
    windows: Windows,
    rows: Rows,
    fit: Fit,
    most: int,
    *,
    scheme: str = "crossfit",
    folds: int = 5,
    beam: int = 0,
    exclude: str = "nothing",
    seed: int = 0,
) -> Flags:
    """Flags for the instances `rows`; see `flag_folds` for the folds of a scheme."""
    targets = torch.from_numpy(windows.targets[rows].astype(np.int64))
    found = torch.full((len(rows), most), -1, dtype=torch.int32)
    fold = np.full(len(rows), NO_FOLD, np.uint8)
    sources = []
    for number, (events, own) in enumerate(flag_folds(windows, rows, scheme, folds, seed)):
        if not len(events) or not own.any():
            raise DataError(
                f"flags: fold {number} has {len(events)} training events and {int(own.sum())} instances; use "
                f"fewer folds than {folds}"
            )
        retrieve, source = fit(events, number)
        found[torch.from_numpy(own)] = retrieve(rows[own])[:, :most].to(torch.int32).cpu()
        fold[own] = number
        sources.append(source)
    made = FlagSettings(scheme, most, beam, exclude, folds, seed, windows.events.fingerprint, tuple(sources))
    return Flags(rank_of(found, targets), fold, found, made)


def flag_folds(
    windows: Windows, rows: Rows, scheme: str, folds: int, seed: int
) -> Iterator[tuple[Interactions, NDArray[np.bool_]]]:
    """Pairs of training events of a retriever and the instances it retrieves for [m].

    - `crossfit`: users in `folds` folds, each retrieved for by a retriever that was trained on the other users;
    - `holdout`: one retriever is trained on one fold of the users and retrieves for all others;
    - `temporal`: it is trained on the earlier half of all events and retrieves for instances that end later;
    - `in-sample`: it is trained on all instances. For comparison only.
    """
    if scheme not in SCHEMES:
        raise ConfigError(f"flags: scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    events, ends = windows.events, windows.ends[rows].astype(np.int64)
    if scheme == "in-sample":
        yield events, np.ones(len(rows), bool)
        return
    if scheme == "temporal":
        when = np.sort(events.times)[int(EARLIER * len(events))]
        yield events.where(events.times < when), events.times[ends] >= when
        return
    of_user = fold_of(events.n_users, folds, seed)
    of_event, of_instance = of_user[events.users], of_user[events.users[ends]]
    if scheme == "holdout":
        yield events.where(of_event == 0), of_instance != 0
        return
    for number in range(folds):
        yield events.where(of_event != number), of_instance == number


def fold_of(n_users: int, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of every user [U], random and of nearly equal size."""
    if folds < 2:
        raise ConfigError(f"flags: folds must be 2 or more, got {folds}")
    order = np.random.default_rng((seed, 71)).permutation(n_users)
    fold = np.empty(n_users, np.int64)
    fold[order] = np.arange(n_users) % folds
    return fold


def rank_of(found: Tensor, targets: Tensor) -> NDArray[np.int16]:
    """The rank of each target [m] in its row of `found` [m, K], -1 where it is missing."""
    same = found == targets[:, None].to(found.dtype)
    hit = same.any(1)
    return torch.where(hit, same.to(torch.uint8).argmax(1), -1).to(torch.int16).numpy()
