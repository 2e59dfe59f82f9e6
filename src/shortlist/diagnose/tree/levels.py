"""Sums over users, level by level, of what a diagnosis of a tree is made of."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.diagnose.tree.beam import Asked, Compared, account, compare, lost_at
from shortlist.diagnose.tree.heap import (
    NOTHING,
    Levels,
    against,
    level_values,
    opponents,
    subtree_peaks,
    uniform_divergence,
    walk_divergence,
)
from shortlist.index.tree import TreeIndex
from shortlist.train.tree import label_weights
from shortlist.train.tree.rectify import ScoreAll


class Sums(NamedTuple):
    """Additive over users; level 0 is the root."""

    account: Tensor  # int64 [8], the fields of Account
    top: Tensor  # int64 [], the best of all leaves
    top_kept: Tensor  # int64 [H + 1], of them still in reach
    top_lost: Tensor  # int64 [H + 1], lost at the level
    wanted_lost: Tensor  # int64 [H + 1]
    search_lost: Tensor  # int64 [H + 1]
    wrong: Tensor  # float64 [H + 1], pairs of nodes in the wrong order
    pairs: Tensor  # float64 [H + 1]
    labels: Tensor  # float64 [2, H + 1]: strict and one_step
    labelled: Tensor  # int64 []
    divergence: (
        Tensor  # float64 [3, H + 1]: from the exact level, from the root, uniform; NaN where there is none
    )
    squares: Tensor  # float64 [], of leaf scores without each user's mean
    by_leaf: Tensor  # float64 [n], the sums of those
    widths: Tensor  # float64 [beams, 3]: nodes scored, best of all leaves returned, held-out items returned


class Look(NamedTuple):
    """A batch of users."""

    sums: Sums
    lists: Tensor  # int64 [U, k], what the beam returned
    interest: Tensor  # int64 [U], how much there is to see in a user's search


@dataclass(frozen=True, eq=False)
class Looking:
    """How batches of users are looked at."""

    index: TreeIndex
    asked: Asked
    beams: Sequence[int]  # other widths to try
    estimator: ScoreAll | None = None
    negatives: int = 70
    seed: int = 0

    def at(self, history: Tensor, truth: Tensor) -> Look:
        """Users [U, K] with what they met next [U, R]."""
        values = level_values(self.index, history, self.asked.product)
        compared = compare(self.index, history, truth, self.asked)
        there, kept = compared.best.items >= 0, compared.top_alive
        wrong, pairs = self._order(values)
        labels, labelled = self._labels(values, history, truth)
        squares, by_leaf = _spread(values[-1])
        wanted = truth >= 0
        searched = wanted & ~compared.missed_by_all
        sums = Sums(
            torch.tensor(astuple(account(compared, truth, self.index, history, self.asked.exclude_seen))),
            there.sum(),
            (kept & there[:, :, None]).sum((0, 1)),
            lost_at(kept, there),
            lost_at(compared.wanted_alive, wanted & (self.index.tree.leaves(truth) >= 0)),
            lost_at(compared.wanted_alive, searched),
            wrong,
            pairs,
            labels,
            labelled,
            self._divergence(values),
            squares,
            by_leaf,
            self._widths(history, truth, compared),
        )
        return Look(sums, compared.found.items, _interest(compared, wanted))

    def _order(self, values: Levels) -> tuple[Tensor, Tensor]:
        shape = self.index.tree.shape
        peaks = subtree_peaks(shape, values[-1])
        generator = torch.Generator().manual_seed(self.seed)
        told = [
            against(values[level], peaks[level], self.asked.beam, opponents(size, generator))
            for level, size in enumerate(shape.sizes)
        ]
        return torch.stack([wrong for wrong, _ in told]), torch.stack([pairs for _, pairs in told])

    def _labels(self, values: Levels, history: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Labels of the paths to what each user met first of all next; the root's is not asked for and counts 0."""
        tree, height = self.index.tree, self.index.tree.shape.height
        item = truth[:, 0]
        there = tree.leaves(item) >= 0
        if self.estimator is None:
            scores = values[-1][:, tree.leaf_of_item.clamp(min=0).long()]  # [U, n_items]
        else:
            scores = self.estimator(history)
        levels = tuple(range(1, height + 1))
        if not levels:
            return torch.zeros(2, 1, dtype=torch.float64), there.sum()
        made = [
            label_weights(scores, item, tree, levels, mode).double().sum(0) for mode in ("strict", "one_step")
        ]
        return torch.nn.functional.pad(torch.stack(made), (1, 0)), there.sum()

    def _divergence(self, values: Levels) -> Tensor:
        shape = self.index.tree.shape
        first = shape.start(self.negatives + 1)
        whole = shape.sizes[first] <= self.negatives + 1  # no level is too large
        nothing = torch.full((len(values),), torch.nan, dtype=torch.float64)
        rows = [nothing.clone(), nothing.clone(), nothing.clone()]
        for row, start in ((0, len(values) if whole else first), (1, 1)):
            if start <= shape.height:
                for level, found in walk_divergence(shape, values, start).items():
                    rows[row][level] = found.sum()
        rows[2] = torch.stack([uniform_divergence(one).sum() for one in values])
        return torch.stack(rows)

    def _widths(self, history: Tensor, truth: Tensor, compared: Compared) -> Tensor:
        rows = []
        for beam in self.beams:
            found = replace(self.asked, beam=beam).by_beam(self.index, history)
            scored = torch.stack([one.n_scored for one in found.beams]).sum()
            returned = is_in(compared.best.items, found.items).sum()
            rows.append(torch.stack([scored, returned, is_in(truth, found.items).sum()]))
        return torch.stack(rows).double()


def added(parts: Sequence[Sums]) -> Sums:
    """The sums of all batches."""
    return Sums(*(torch.stack(one).sum(0) for one in zip(*parts, strict=True)))


def _spread(leaves: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of squares, and the sums by leaf, of scores [U, n] without each user's mean over leaves with items."""
    live = leaves > NOTHING
    filled = torch.where(live, leaves.double(), 0.0)
    mean = filled.sum(1, keepdim=True) / live.sum(1, keepdim=True)
    off = torch.where(live, filled - mean, 0.0)
    return off.square().sum(), off.sum(0)


def _interest(compared: Compared, wanted: Tensor) -> Tensor:
    """4 for an item that search lost, 2 for one found, 1 for one that was lost after the first level: [U]."""
    found = compared.wanted_alive[:, :, -1]
    searched = wanted & ~compared.missed_by_all & ~found
    late = compared.wanted_alive[:, :, -2:].any(2) & ~found
    return 4 * searched.any(1) + 2 * found.any(1) + late.any(1)
