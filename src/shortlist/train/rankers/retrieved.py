"""Which training instances a retriever finds, asked of a retriever that did not learn from them.

A retriever that learned from an instance finds it more often than it finds new ones; a ranker that learns from such
flags learns for a retriever that nobody will serve. Every way to make them here but `in-sample` asks a retriever whose
training, item vectors and tree included, never saw the instance.
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

WAYS = ("crossfit", "holdout", "temporal", "in-sample")
NOBODY = 255  # the fold of an instance that no retriever was asked for
LATER = 0.5  # of the events lie before the cut of "temporal"

Rows = NDArray[np.int64]
Ask = Callable[[Rows], Tensor]
"""Instances -> what is retrieved for each [m, most], best first, -1 = nothing."""

Fit = Callable[[Interactions, int], tuple[Ask, str]]
"""Events to learn from and the number of the part -> a retriever, and a checksum of all it learned."""


@dataclass(frozen=True)
class Made:
    """How flags came about; flags are good for a system that retrieves alike, and for no other."""

    way: str
    most: int  # items asked for
    beam: int
    exclude: str  # what is never retrieved, in a word: nothing, history, everything seen
    folds: int
    seed: int
    data: str  # fingerprint of the events
    sources: tuple[str, ...]  # a checksum of every retriever asked


@dataclass(frozen=True, eq=False)
class Flags:
    """The place of every instance's item among what was retrieved for it; one pass serves every smaller K."""

    rank: NDArray[np.int16]  # [m], from 0, -1 = not retrieved
    fold: NDArray[np.uint8]  # [m]
    found: Tensor  # int32 [m, most]
    made: Made

    def hit(self, k: int) -> NDArray[np.bool_]:
        """Whether the item is among the first k [m]."""
        if not 1 <= k <= self.made.most:
            raise ConfigError(
                f"flags: were made for at most {self.made.most} retrieved items, asked for {k}; make them anew"
            )
        return (self.rank >= 0) & (self.rank < k)

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Whether a retriever was asked for the instance [m]."""
        return np.asarray(self.fold != NOBODY)

    def check(self, **expected: Any) -> "Flags":
        """Refuse flags that were made otherwise than the system they are used for."""
        made = asdict(self.made)
        if unknown := sorted(set(expected) - set(made)):
            raise ConfigError(f"flags: know nothing of {', '.join(unknown)}; they know {', '.join(made)}")
        wrong = [name for name, value in expected.items() if made[name] != value]
        if wrong:
            told = ", ".join(f"{name} {made[name]!r}, not {expected[name]!r}" for name in wrong)
            raise ArtifactError(f"flags: were made for another system ({told}); make them anew")
        return self


def retrieved_flags(
    windows: Windows,
    rows: Rows,
    fit: Fit,
    most: int,
    *,
    way: str = "crossfit",
    folds: int = 5,
    beam: int = 0,
    exclude: str = "nothing",
    seed: int = 0,
) -> Flags:
    """Flags for the instances `rows`; see `parts_of` for who is asked for which of them."""
    wanted = torch.from_numpy(windows.targets[rows].astype(np.int64))
    found = torch.full((len(rows), most), -1, dtype=torch.int32)
    fold = np.full(len(rows), NOBODY, np.uint8)
    sources = []
    for number, (learned, asked) in enumerate(parts_of(windows, rows, way, folds, seed)):
        if not len(learned) or not asked.any():
            raise DataError(
                f"flags: part {number} has {len(learned)} events to learn from and {int(asked.sum())} instances to "
                f"ask for; use fewer folds than {folds}"
            )
        ask, source = fit(learned, number)
        found[torch.from_numpy(asked)] = ask(rows[asked])[:, :most].to(torch.int32).cpu()
        fold[asked] = number
        sources.append(source)
    made = Made(way, most, beam, exclude, folds, seed, windows.events.fingerprint, tuple(sources))
    return Flags(place_of(found, wanted), fold, found, made)


def parts_of(
    windows: Windows, rows: Rows, way: str, folds: int, seed: int
) -> Iterator[tuple[Interactions, NDArray[np.bool_]]]:
    """Pairs of events to learn from and instances to ask for afterwards.

    - `crossfit`: users in `folds` parts, each asked of a retriever that learned from the other users;
    - `holdout`: one retriever learns from one part of the users, all others are asked;
    - `temporal`: it learns from the earlier half of all events, and is asked for instances that end later;
    - `in-sample`: it learns from everything it is asked for. For comparison only.
    """
    if way not in WAYS:
        raise ConfigError(f"flags: the way must be one of {', '.join(WAYS)}, got {way!r}")
    events, ends = windows.events, windows.ends[rows].astype(np.int64)
    if way == "in-sample":
        yield events, np.ones(len(rows), bool)
        return
    if way == "temporal":
        when = np.sort(events.times)[int(LATER * len(events))]
        yield events.where(events.times < when), events.times[ends] >= when
        return
    of_user = fold_of(events.n_users, folds, seed)
    learns, asks = of_user[events.users], of_user[events.users[ends]]
    if way == "holdout":
        yield events.where(learns == 0), asks != 0
        return
    for number in range(folds):
        yield events.where(learns != number), asks == number


def fold_of(n_users: int, folds: int, seed: int) -> NDArray[np.int64]:
    """A part for every user [U], all nearly of one size."""
    if folds < 2:
        raise ConfigError(f"flags: folds must be 2 or more, got {folds}")
    order = np.random.default_rng((seed, 71)).permutation(n_users)
    part = np.empty(n_users, np.int64)
    part[order] = np.arange(n_users) % folds
    return part


def place_of(found: Tensor, wanted: Tensor) -> NDArray[np.int16]:
    """Where each wanted item [m] stands in its row of `found` [m, K], -1 where it does not."""
    same = found == wanted[:, None].to(found.dtype)
    there = same.any(1)
    return torch.where(there, same.to(torch.uint8).argmax(1), -1).to(torch.int16).numpy()
