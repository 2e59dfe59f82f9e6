"""Numeric checks of claims about the bounds of both papers."""

import math
from collections.abc import Callable

import numpy as np
import torch

from shortlist.diagnose.tree.max_heap import subtree_max
from shortlist.index.tree import TreeShape
from shortlist.lab.theory.bounds_dtr import corollary1
from shortlist.lab.theory.bounds_inputs import bottom_aligned, pair_factor, same_level_pairs, top_aligned
from shortlist.lab.theory.bounds_ranker import weight_shift
from shortlist.lab.theory.bounds_sampler import plus_shares, sampler_gap
from shortlist.lab.theory.margin_checks import Check
from shortlist.train.rankers.training_data.weights import expected_share, weigh
from shortlist.train.tree import log_proposal, proposal_kl

LEAVES = 2000
BRANCHES = range(2, 33)
CASES = 300
FLAGS = 50_000
SHARED = {1000: 1.000, 100: 0.246, 1: 0.025}  # nodes shared by 1,000 instances, and the measured complexity


def pairs_of_both_alignments() -> Check:
    """I34: T^2 is above the number of pairs for trees aligned at the bottom, not for those aligned at the top."""
    over: dict[str, list[tuple[int, int]]] = {"bottom": [], "top": []}
    for branch in BRANCHES:
        for n in range(2, LEAVES + 1):
            most = pair_factor(n, branch) ** 2
            if same_level_pairs(bottom_aligned(n, branch)) > most:
                over["bottom"].append((n, branch))
            if branch == 2 and same_level_pairs(top_aligned(n, branch)) > most:
                over["top"].append((n, branch))
    first = over["top"][0] if over["top"] else (0, 0)
    outcome = f"bottom {len(over['bottom'])}; top first at N={first[0]}, B={first[1]}"
    ok = not over["bottom"] and first == (5, 2)
    size = f"N <= {LEAVES}, B {BRANCHES[0]}..{BRANCHES[-1]}"
    return Check("pairs against T^2", size, "bottom 0; top first at N=5, B=2", outcome, ok)


def sampled_losses_keep_to_the_corrected_divergence() -> Check:
    """I36: 0 <= gap <= KL+ <= KL within 6 standard errors, and P+ sums to 1."""
    generator, wrong = torch.Generator().manual_seed(3), 0
    for case in range(CASES):
        size, negatives = 2 + case % 40, 1 + case % 13
        scores = 3 * torch.randn(1, size, generator=generator, dtype=torch.float64)
        positive = torch.randint(size, (1,), generator=generator)
        q = (2 * torch.randn(1, size, generator=generator)).softmax(1)
        measured = sampler_gap(scores, positive, q, negatives, draws=1000, seed=case)
        tolerance = 6 * measured.error + 1e-12
        normalized = abs(float(plus_shares(scores, positive, q).sum()) - 1) < 1e-12
        within = -tolerance <= measured.gap <= measured.kl_plus + tolerance
        wrong += not (within and measured.kl_plus <= measured.kl + 1e-12 and normalized)
    return Check("Lemma 3 with P+", f"{CASES} random (o, q, M)", "0", str(wrong), wrong == 0)


def proposals_keep_to_the_tight_corollary() -> Check:
    """I37: on a max-heap, q / p and KL keep to (j - 1) log(1 / (1 - epsilon)), at most (j - 1) log B."""
    rng, wrong = np.random.default_rng(4), 0
    for _ in range(CASES):
        shape = TreeShape(int(rng.integers(4, 65)), int(rng.integers(2, 7)))
        leaves = torch.from_numpy(rng.normal(0, 2, (1, shape.n)))
        peaks = subtree_max(shape, leaves)
        values = {level: peaks[level] + float(rng.normal()) for level in range(1, shape.height + 1)}
        epsilon = 1 - _smallest_share(shape, values)
        for level, logq in log_proposal(shape, values, 1).items():
            tight = corollary1(level, epsilon).value
            distance = float((logq - values[level].log_softmax(1)).abs().max())
            kl = float(proposal_kl(logq, values[level])[0])
            wrong += max(distance, kl) > tight + 1e-9 or tight > (level - 1) * math.log(shape.branch) + 1e-9
    return Check("Corollary 1, tight", f"{CASES} max-heap trees", "0", str(wrong), wrong == 0)


def _smallest_share(shape: TreeShape, values: dict[int, torch.Tensor]) -> float:
    """The smallest share of the best child among its siblings, over all nodes."""
    families = [
        values[level + 1][0, list(shape.children(level, node))].softmax(0).max()
        for level in range(1, shape.height)
        for node in range(shape.sizes[level])
    ]
    return float(torch.stack(families).min()) if families else 1.0


def free_nodes_exceed_the_claimed_complexity() -> Check:
    """Node vectors that instances do not share fit any signs; the claimed 1 / sqrt(m) holds for one node only."""
    rng, m, found = np.random.default_rng(5), 1000, {}
    for nodes in SHARED:
        signs = rng.choice([-1, 1], (2000, nodes, m // nodes))
        # Every node vector takes the direction of the sum of its signs.
        found[nodes] = float(np.abs(signs.sum(2)).sum(1).mean()) / m
    claimed = 1 / math.sqrt(m)
    outcome = "/".join(f"{value:.3f}" for value in found.values()) + f" against {claimed:.3f}"
    ok = all(abs(found[nodes] - expected) < 0.002 for nodes, expected in SHARED.items())
    expected = "/".join(f"{value:.3f}" for value in SHARED.values()) + " against 0.032"
    return Check("P eq. 46", f"m={m}; {'/'.join(map(str, SHARED))} nodes", expected, outcome, ok)


def shift_and_effective_share_follow_from_recall() -> Check:
    """I29, I30: mean |1 - w| = 2 (1 - R), and the effective sample share by its formula."""
    rng, worst = np.random.default_rng(6), 0.0
    for recall in (0.05, 0.3, 0.9):
        flags = rng.random(FLAGS) < recall
        share = float(flags.mean())
        worst = max(worst, abs(weight_shift(flags) - 2 * (1 - share)))
        for keep in (0.0, 0.25, 0.5, 0.75, 1.0):
            summed = weigh(flags, keep, most=math.inf).effective_share
            worst = max(worst, abs(summed - expected_share(share, keep)))
    return Check(
        "shift and ESS", f"{FLAGS} Bernoulli flags", "equal to 1e-12", f"{worst:.1e}", worst <= 1e-12
    )


BOUND_CHECKS: tuple[Callable[[], Check], ...] = (
    pairs_of_both_alignments,
    sampled_losses_keep_to_the_corrected_divergence,
    proposals_keep_to_the_tight_corollary,
    free_nodes_exceed_the_claimed_complexity,
    shift_and_effective_share_follow_from_recall,
)
