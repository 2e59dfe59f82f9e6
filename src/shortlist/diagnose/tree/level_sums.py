"""Sums over users, level by level, behind a tree diagnosis."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from shortlist.data.membership import is_in
from shortlist.diagnose.tree.beam_losses import (
    SearchComparison,
    SearchSettings,
    compare_searches,
    count_losses,
    lost_at,
)
from shortlist.diagnose.tree.max_heap import (
    NOTHING,
    Levels,
    comparison_nodes,
    level_scores,
    order_violations,
    subtree_max,
    tree_sampler_kl,
    uniform_kl,
)
from shortlist.index.tree import TreeIndex
from shortlist.train.tree import label_weights
from shortlist.train.tree.rectify import ScoreAll


class LevelSums(NamedTuple):
    """Additive over users; level 0 is the root."""

    losses: Tensor  # int64 [8], the fields of LossCounts
    top: Tensor  # int64 [], the top k of all leaves
    top_kept: Tensor  # int64 [H + 1], of them with their ancestor in the beam
    top_lost: Tensor  # int64 [H + 1], lost at the level
    relevant_lost: Tensor  # int64 [H + 1]
    beam_lost: Tensor  # int64 [H + 1]
    violations: Tensor  # float64 [H + 1], pairs of nodes against the max-heap order
    pairs: Tensor  # float64 [H + 1]
    labels: Tensor  # float64 [2, H + 1]: strict and one_step
    labelled: Tensor  # int64 []
    kl: Tensor  # float64 [3, H + 1]: tree-based sampling, the same from the root, uniform; NaN without sampling
    squares: Tensor  # float64 [], of leaf scores minus each user's mean
    by_leaf: Tensor  # float64 [n], the sums of those
    widths: Tensor  # float64 [beams, 3]: nodes scored, top k of all leaves returned, relevant items returned


class BatchResult(NamedTuple):
    """The results of a batch of users."""

    sums: LevelSums
    lists: Tensor  # int64 [U, k], returned by the beam
    interest: Tensor  # int64 [U], how instructive a user's search is


@dataclass(frozen=True, eq=False)
class BatchDiagnosis:
    """How batches of users are diagnosed."""

    index: TreeIndex
    settings: SearchSettings
    beams: Sequence[int]  # other widths to try
    estimator: ScoreAll | None = None
    negatives: int = 70
    seed: int = 0

    def run(self, history: Tensor, relevant: Tensor) -> BatchResult:
        """Histories [U, K] with relevant items [U, R]."""
        scores = level_scores(self.index, history, self.settings.product)
        compared = compare_searches(self.index, history, relevant, self.settings)
        in_top, kept = compared.best.items >= 0, compared.top_alive
        violations, pairs = self._order(scores)
        labels, labelled = self._labels(scores, history, relevant)
        squares, by_leaf = _centred_sums(scores[-1])
        exists = relevant >= 0
        in_top_k = exists & ~compared.outside_top
        counts = count_losses(compared, relevant, self.index, history, self.settings.exclude_seen)
        sums = LevelSums(
            torch.tensor(astuple(counts)),
            in_top.sum(),
            (kept & in_top[:, :, None]).sum((0, 1)),
            lost_at(kept, in_top),
            lost_at(compared.relevant_alive, exists & (self.index.tree.leaves(relevant) >= 0)),
            lost_at(compared.relevant_alive, in_top_k),
            violations,
            pairs,
            labels,
            labelled,
            self._kl(scores),
            squares,
            by_leaf,
            self._widths(history, relevant, compared),
        )
        return BatchResult(sums, compared.found.items, _interest(compared, exists))

    def _order(self, scores: Levels) -> tuple[Tensor, Tensor]:
        shape = self.index.tree.shape
        peaks = subtree_max(shape, scores[-1])
        generator = torch.Generator().manual_seed(self.seed)
        found = [
            order_violations(
                scores[level], peaks[level], self.settings.beam, comparison_nodes(size, generator)
            )
            for level, size in enumerate(shape.sizes)
        ]
        return torch.stack([wrong for wrong, _ in found]), torch.stack([pairs for _, pairs in found])

    def _labels(self, scores: Levels, history: Tensor, relevant: Tensor) -> tuple[Tensor, Tensor]:
        """Labels of the paths to each user's first relevant item; 0 for the root."""
        tree, height = self.index.tree, self.index.tree.shape.height
        item = relevant[:, 0]
        in_tree = tree.leaves(item) >= 0
        if self.estimator is None:
            item_scores = scores[-1][:, tree.leaf_of_item.clamp(min=0).long()]  # [U, n_items]
        else:
            item_scores = self.estimator(history)
        levels = tuple(range(1, height + 1))
        if not levels:
            return torch.zeros(2, 1, dtype=torch.float64), in_tree.sum()
        labels = [
            label_weights(item_scores, item, tree, levels, mode).double().sum(0)
            for mode in ("strict", "one_step")
        ]
        return torch.nn.functional.pad(torch.stack(labels), (1, 0)), in_tree.sum()

    def _kl(self, scores: Levels) -> Tensor:
        shape = self.index.tree.shape
        first = shape.start(self.negatives + 1)
        complete = shape.sizes[first] <= self.negatives + 1  # every level is small: nothing is sampled
        missing = torch.full((len(scores),), torch.nan, dtype=torch.float64)
        rows = [missing.clone(), missing.clone(), missing.clone()]
        for row, start in ((0, len(scores) if complete else first), (1, 1)):
            if start <= shape.height:
                for level, kl in tree_sampler_kl(shape, scores, start).items():
                    rows[row][level] = kl.sum()
        rows[2] = torch.stack([uniform_kl(one).sum() for one in scores])
        return torch.stack(rows)

    def _widths(self, history: Tensor, relevant: Tensor, compared: SearchComparison) -> Tensor:
        rows = []
        for beam in self.beams:
            found = replace(self.settings, beam=beam).beam_search(self.index, history)
            scored = torch.stack([one.n_scored for one in found.beams]).sum()
            returned = is_in(compared.best.items, found.items).sum()
            rows.append(torch.stack([scored, returned, is_in(relevant, found.items).sum()]))
        return torch.stack(rows).double()


def added(parts: Sequence[LevelSums]) -> LevelSums:
    """The sums of all batches."""
    return LevelSums(*(torch.stack(one).sum(0) for one in zip(*parts, strict=True)))


def _centred_sums(leaves: Tensor) -> tuple[Tensor, Tensor]:
    """Sum of squares, and sums by leaf, of scores [U, n] minus each user's mean over leaves with items."""
    live = leaves > NOTHING
    filled = torch.where(live, leaves.double(), 0.0)
    mean = filled.sum(1, keepdim=True) / live.sum(1, keepdim=True)
    centred = torch.where(live, filled - mean, 0.0)
    return centred.square().sum(), centred.sum(0)


def _interest(compared: SearchComparison, exists: Tensor) -> Tensor:
    """4 for an item lost by the beam, 2 for a returned one, 1 for one lost at the leaves or just above: [U]."""
    returned = compared.relevant_alive[:, :, -1]
    lost = exists & ~compared.outside_top & ~returned
    late = compared.relevant_alive[:, :, -2:].any(2) & ~returned
    return 4 * lost.any(1) + 2 * returned.any(1) + late.any(1)
