"""Numeric checks of claims about margins, losses and norms of the two-stage paper."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.diagnose.tree.max_heap import Levels
from shortlist.index.tree import TreeShape
from shortlist.lab.theory.margin import beam_candidates, lead, level_margins, path_margin
from shortlist.train.tree.loss import level_softmax, margin, surrogate, top_k_hinge

TREES = 600
DRAWS = 20_000
WIDTHS = {
    4: 0.080,
    7: 0.107,
    12: 0.138,
    24: 0.195,
    96: 0.391,
}  # measured complexity under the column norm, by width
SAMPLE = 400  # instances of that comparison
FLIPS = 2000  # random sign vectors


@dataclass(frozen=True)
class Check:
    """A claim, the size of its check, and the outcome."""

    name: str
    size: str
    expected: str
    found: str
    ok: bool


class Case(NamedTuple):
    """A tree with scores, and each of its leaves as a target."""

    shape: TreeShape
    values: Levels  # float64 [leaves, nodes] by level
    leaf: Tensor  # int64 [leaves]
    k: int


def path_margin_predicts_what_is_found() -> Check:
    """Prop. 4.3: a margin of at least 0 means found, in both forms, and only if the leaf counts (I9, I10)."""
    cases, wrong, wrong_without_leaf = 0, [0, 0], 0
    for case in random_trees(TREES):
        shape, values, leaf, k = case
        cand, found = beam_candidates(shape, values, k), found_by_search(case)
        cases += len(leaf)
        for form in (False, True):
            leads = level_margins(shape, values, leaf, k, cand=cand, exclude_self=form)
            wrong[form] += int(((leads.amin(1) >= 0) != found).sum())
        wrong_without_leaf += int(((_minimum(leads[:, :-1]) >= 0) != found).sum())
    outcome = f"{wrong[0]} and {wrong[1]}; {wrong_without_leaf} without the leaf"
    ok = wrong == [0, 0] and wrong_without_leaf > 0
    return Check(
        "Prop. 4.3", f"{cases} leaves of {TREES} trees", "0 and 0; more without the leaf", outcome, ok
    )


def full_level_margin_is_smaller_and_lipschitz() -> Check:
    """g~ <= g, and g~ changes by at most sqrt(2) times the change of the scores (I12, I13)."""
    cases = above = too_steep = 0
    generator = torch.Generator().manual_seed(1)
    for case in random_trees(TREES):
        shape, values, leaf, k = case
        cand = beam_candidates(shape, values, k)
        step = 10.0 ** (3 * torch.rand(1, generator=generator, dtype=torch.float64).item() - 2)
        moved = tuple(scores + step * _normal(generator, *scores.shape) for scores in values)
        distance = torch.cat([a - b for a, b in zip(moved, values, strict=True)], 1).norm(dim=1)
        for form in (False, True):
            full = path_margin(shape, values, leaf, k, exclude_self=form).value
            beam = path_margin(shape, values, leaf, k, cand=cand, exclude_self=form).value
            other = path_margin(shape, moved, leaf, k, exclude_self=form).value
            cases, above = cases + len(leaf), above + int((full > beam).sum())
            change = torch.where(torch.isinf(full) & torch.isinf(other), 0.0, (full - other).abs())
            too_steep += int((change > math.sqrt(2) * distance * (1 + 1e-9)).sum())
    outcome = f"{above} above; {too_steep} steeper"
    ok = above == 0 and too_steep == 0
    return Check("g~ <= g; g~ is sqrt(2)-Lipschitz", f"{cases} pairs", "0 above; 0 steeper", outcome, ok)


def losses_bound_the_surrogate() -> Check:
    """App. A: losses are above A(g) for K >= 2; for K = 1 as printed only the second example is (I14)."""
    several = [failures(k, DRAWS, seed=k) for k in (2, 3, 4)]
    many = tuple(sum(counts[at] for counts in several) for at in range(3))
    single = failures(1, DRAWS, seed=1)
    others = failures(1, DRAWS, seed=1, exclude_self=True)
    outcome = f"K>=2: {_joined(many)}; K=1: {_joined(single)}; K=1 of the others: {_joined(others)}"
    ok = many == (0, 0, 0) and single[1] == 0 and min(single[0], single[2]) > 0 and others == (0, 0, 0)
    expected = "K>=2: 0/0/0; K=1: >0/0/>0; K=1 of the others: 0/0/0"
    return Check("App. A, examples 1/2/3", f"{DRAWS} samples for each K", expected, outcome, ok)


def only_row_norms_bound_layers() -> Check:
    """X6: with the printed column norm a layer exceeds its complexity bound from d = 7 on, with row norms never."""
    bound = 2 / math.sqrt(SAMPLE)  # (B_0 + B_x) B_1 / sqrt(m), all of them 1
    found = {d: complexities(d, SAMPLE, FLIPS, seed=d) for d in WIDTHS}
    near = all(abs(found[d][0] - expected) < 0.004 for d, expected in WIDTHS.items())
    violations = [d for d, (column, _, _) in found.items() if column > bound]
    rows, whole = max(values[1] for values in found.values()), max(values[2] for values in found.values())
    columns = "/".join(f"{column:.3f}" for column, _, _ in found.values())
    ok = near and violations == [7, 12, 24, 96] and rows <= 0.0375 and whole <= bound
    expected = "/".join(f"{value:.3f}" for value in WIDTHS.values()) + f" against {bound:.3f}; rows <= 0.037"
    size = f"d = {', '.join(map(str, WIDTHS))}, m = {SAMPLE}"
    outcome = f"{columns}; rows {rows:.3f}, with nodes {whole:.3f}"
    return Check("row versus column norm", size, expected, outcome, ok)


MARGIN_CHECKS: tuple[Callable[[], Check], ...] = (
    path_margin_predicts_what_is_found,
    full_level_margin_is_smaller_and_lipschitz,
    losses_bound_the_surrogate,
    only_row_norms_bound_layers,
)


def random_trees(count: int, seed: int = 0) -> Iterator[Case]:
    """Trees of 2 to 64 leaves with normal scores, K from 1 to 8."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        shape = TreeShape(int(random.integers(2, 65)), int(random.integers(2, 6)))
        scores = [torch.from_numpy(random.standard_normal(size)) for size in shape.sizes]
        leaf = torch.arange(shape.n)
        yield Case(
            shape, tuple(level.expand(shape.n, -1) for level in scores), leaf, int(random.integers(1, 9))
        )


def found_by_search(case: Case) -> Tensor:
    """Which leaves a beam search finds, computed with plain lists: bool [leaves]."""
    shape, values, leaf, k = case
    kept = [0]
    for level in range(1, shape.height + 1):
        scores = values[level][0].tolist()
        children = [child for node in kept for child in shape.children(level - 1, node)]
        kept = sorted(children, key=lambda node: (-scores[node], node))[:k]
    return torch.tensor([int(target) in kept for target in leaf])


def failures(k: int, draws: int, seed: int, exclude_self: bool = False) -> tuple[int, int, int]:
    """How often the maximum over two levels is below A(g): margin loss, top-k hinge and softmax in bits."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * _normal(generator, draws, 2, 5)
    valid = torch.rand(draws, 2, 5, generator=generator) < 0.8
    valid[:, :, 0] = True
    first = torch.zeros(draws, dtype=torch.int64)
    leads = [lead(logits[:, at], first, valid[:, at], k, exclude_self) for at in range(2)]
    g = torch.stack(leads, 1).amin(1)  # [draws]
    bits = level_softmax(logits, valid, reduction="none") / math.log(2)
    losses = (
        margin(logits, valid, reduction="none"),
        top_k_hinge(logits, valid, k=k, self_cost=True, reduction="none"),
        bits,
    )
    surrogates = [surrogate(g, phi) for phi in ("hinge", "hinge", "logistic")]
    below = [int((loss.amax(1) < a - 1e-9).sum()) for loss, a in zip(losses, surrogates, strict=True)]
    return below[0], below[1], below[2]


def complexities(d: int, m: int, flips: int, seed: int) -> tuple[float, float, float]:
    """Rademacher complexities of one layer on m random unit vectors: columns, rows, rows with a free node vector.

    A single row w of layers [x; v]: its column norm is its largest entry, its row norm their sum. The best w for
    signs e has value |sum e x|_1 or |sum e x|_inf over m; a free unit node vector adds |sum e| to the latter's maximum.
    """
    random = np.random.default_rng(seed)
    x = random.standard_normal((m, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    signs = random.integers(0, 2, (flips, m)) * 2.0 - 1.0
    sums = np.abs(signs @ x)  # [flips, d]
    nodes = np.abs(signs.sum(1))
    largest = sums.max(1)
    return (
        float(sums.sum(1).mean() / m),
        float(largest.mean() / m),
        float(np.maximum(largest, nodes).mean() / m),
    )


def _minimum(leads: Tensor) -> Tensor:
    """The minimum of each row, inf for an empty one."""
    return torch.nn.functional.pad(leads, (0, 1), value=torch.inf).amin(1)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _joined(counts: tuple[int, ...]) -> str:
    return "/".join(map(str, counts))
