"""Claims about margins, losses and norms of the two-stage paper, tried out on random numbers."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from shortlist.diagnose.tree.heap import Levels
from shortlist.index.tree import TreeShape
from shortlist.lab.theory.check import Check
from shortlist.lab.theory.margin import beam_candidates, lead, level_margins, path_margin
from shortlist.train.tree.loss import level_softmax, margin, surrogate, top_k_hinge

TREES = 600
DRAWS = 20_000
WIDTHS = {4: 0.080, 7: 0.107, 12: 0.138, 24: 0.195, 96: 0.391}  # what the column norm was found to allow
SAMPLE = 400  # instances of that comparison
FLIPS = 2000  # draws of their signs


class Case(NamedTuple):
    """A tree with scores, and every one of its leaves asked for."""

    shape: TreeShape
    values: Levels  # float64 [leaves, nodes] by level
    leaf: Tensor  # int64 [leaves]
    k: int


def path_margin_says_what_is_found() -> Check:
    """Prop. 4.3: a margin of at least 0 means found, in both forms, and only if the leaf counts (I9, I10)."""
    cases, wrong, wrong_without_leaf = 0, [0, 0], 0
    for case in random_trees(TREES):
        shape, values, leaf, k = case
        cand, found = beam_candidates(shape, values, k), found_by_walk(case)
        cases += len(leaf)
        for form in (False, True):
            leads = level_margins(shape, values, leaf, k, cand=cand, exclude_self=form)
            wrong[form] += int(((leads.amin(1) >= 0) != found).sum())
        wrong_without_leaf += int(((_least(leads[:, :-1]) >= 0) != found).sum())
    told = f"{wrong[0]} and {wrong[1]}; {wrong_without_leaf} without the leaf"
    ok = wrong == [0, 0] and wrong_without_leaf > 0
    return Check("Prop. 4.3", f"{cases} leaves of {TREES} trees", "0 and 0; more without the leaf", told, ok)


def full_level_margin_is_smaller_and_smooth() -> Check:
    """g~ <= g, and g~ moves by at most sqrt(2) times the scores' move (I12, I13)."""
    cases = above = too_steep = 0
    generator = torch.Generator().manual_seed(1)
    for case in random_trees(TREES):
        shape, values, leaf, k = case
        cand = beam_candidates(shape, values, k)
        step = 10.0 ** (3 * torch.rand(1, generator=generator, dtype=torch.float64).item() - 2)
        moved = tuple(one + step * _normal(generator, *one.shape) for one in values)
        far = torch.cat([a - b for a, b in zip(moved, values, strict=True)], 1).norm(dim=1)
        for form in (False, True):
            full = path_margin(shape, values, leaf, k, exclude_self=form).value
            beam = path_margin(shape, values, leaf, k, cand=cand, exclude_self=form).value
            other = path_margin(shape, moved, leaf, k, exclude_self=form).value
            cases, above = cases + len(leaf), above + int((full > beam).sum())
            turn = torch.where(torch.isinf(full) & torch.isinf(other), 0.0, (full - other).abs())
            too_steep += int((turn > math.sqrt(2) * far * (1 + 1e-9)).sum())
    told = f"{above} above; {too_steep} steeper"
    ok = above == 0 and too_steep == 0
    return Check("g~ <= g; g~ is sqrt(2)-Lipschitz", f"{cases} pairs", "0 above; 0 steeper", told, ok)


def losses_bound_what_they_stand_for() -> Check:
    """App. A: losses are above A(g) for K >= 2; for K = 1 as printed only the second example is (I14)."""
    some = [failures(k, DRAWS, seed=k) for k in (2, 3, 4)]
    many = tuple(sum(one[at] for one in some) for at in range(3))
    one = failures(1, DRAWS, seed=1)
    own = failures(1, DRAWS, seed=1, exclude_self=True)
    told = f"K>=2: {_told(many)}; K=1: {_told(one)}; K=1 of the others: {_told(own)}"
    ok = many == (0, 0, 0) and one[1] == 0 and min(one[0], one[2]) > 0 and own == (0, 0, 0)
    wanted = "K>=2: 0/0/0; K=1: >0/0/>0; K=1 of the others: 0/0/0"
    return Check("App. A, examples 1/2/3", f"{DRAWS} draws for each K", wanted, told, ok)


def only_row_norms_bound_layers() -> Check:
    """X6: with the printed column norm a layer is richer than its bound allows from d = 7 on, with row norms never."""
    bound = 2 / math.sqrt(SAMPLE)  # (B_0 + B_x) B_1 / sqrt(m), all of them 1
    found = {d: richness(d, SAMPLE, FLIPS, seed=d) for d in WIDTHS}
    near = all(abs(found[d][0] - wanted) < 0.004 for d, wanted in WIDTHS.items())
    breaks = [d for d, (column, _, _) in found.items() if column > bound]
    rows, whole = max(one[1] for one in found.values()), max(one[2] for one in found.values())
    told = "/".join(f"{column:.3f}" for column, _, _ in found.values())
    ok = near and breaks == [7, 12, 24, 96] and rows <= 0.0375 and whole <= bound
    wanted = "/".join(f"{one:.3f}" for one in WIDTHS.values()) + f" against {bound:.3f}; rows <= 0.037"
    size = f"d = {', '.join(map(str, WIDTHS))}, m = {SAMPLE}"
    return Check(
        "row versus column norm", size, wanted, f"{told}; rows {rows:.3f}, with nodes {whole:.3f}", ok
    )


MARGIN_CHECKS: tuple[Callable[[], Check], ...] = (
    path_margin_says_what_is_found,
    full_level_margin_is_smaller_and_smooth,
    losses_bound_what_they_stand_for,
    only_row_norms_bound_layers,
)


def random_trees(count: int, seed: int = 0) -> Iterator[Case]:
    """Trees of 2 to 64 leaves with normal scores, K from 1 to 8."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        shape = TreeShape(int(random.integers(2, 65)), int(random.integers(2, 6)))
        one = [torch.from_numpy(random.standard_normal(size)) for size in shape.sizes]
        leaf = torch.arange(shape.n)
        yield Case(shape, tuple(v.expand(shape.n, -1) for v in one), leaf, int(random.integers(1, 9)))


def found_by_walk(case: Case) -> Tensor:
    """Which leaves a search finds, walked in plain lists: bool [leaves]."""
    shape, values, leaf, k = case
    kept = [0]
    for level in range(1, shape.height + 1):
        scores = values[level][0].tolist()
        children = [child for node in kept for child in shape.children(level - 1, node)]
        kept = sorted(children, key=lambda node: (-scores[node], node))[:k]
    return torch.tensor([int(one) in kept for one in leaf])


def failures(k: int, draws: int, seed: int, exclude_self: bool = False) -> tuple[int, int, int]:
    """How often the worst of two levels is below A(g): by the margin, the top-k hinge and the softmax in bits."""
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
    meant = [surrogate(g, phi) for phi in ("hinge", "hinge", "logistic")]
    one, two, three = (int((one.amax(1) < a - 1e-9).sum()) for one, a in zip(losses, meant, strict=True))
    return one, two, three


def richness(d: int, m: int, flips: int, seed: int) -> tuple[float, float, float]:
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


def _least(leads: Tensor) -> Tensor:
    """The least of each row, inf of none."""
    return torch.nn.functional.pad(leads, (0, 1), value=torch.inf).amin(1)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _told(counts: tuple[int, ...]) -> str:
    return "/".join(map(str, counts))
