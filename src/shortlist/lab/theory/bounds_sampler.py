"""The gap between a sampled and the full softmax loss: lemma 3 of the DTR paper, corrected, and measured.

With probabilities p of the full softmax, a positive of probability p_pos and M negatives sampled from q, the gap is
E[-log(p_pos + (1/M) sum p_i / q_i)]. The paper bounds it by KL(Q || P). KL(Q || P+) with p+_i = p_i + p_pos q_i bounds
it too, is never larger, equals the gap for M = 1, and is 0 if q follows the model. The delta estimate
(sum p^2 / q - (1 - p_pos)^2) / (2 M) is the limit for many samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shortlist.diagnose.tree.max_heap import FINITE, NOTHING, level_scores
from shortlist.errors import DataError
from shortlist.index.tree import TreeIndex
from shortlist.lab.theory.bounds_inputs import BoundTerm
from shortlist.train.tree import TreeSampler, log_proposal

SAMPLERS = ("uniform", "tree")
CELLS = 1 << 22  # numbers sampled at a time
ONCE = 256  # instances per batch


@dataclass(frozen=True)
class SamplerGap:
    """Means over instances of the quantities of lemma 3, in nats."""

    kl: float
    kl_plus: float
    delta: float
    gap: float  # Monte Carlo
    error: float  # its standard error
    loss: float  # the full softmax loss
    positive: float  # p_pos
    instances: int
    negatives: int

    def terms(self) -> tuple[BoundTerm, ...]:
        """Each as a term of a bound."""
        rows = (
            ("lemma 3", self.kl, "KL(Q || P)", "paper"),
            ("lemma 3", self.kl_plus, "KL(Q || P+)", "corrected"),
            ("delta", self.delta, "(sum p^2 / q - (1 - p_pos)^2) / (2 M)", "estimate"),
            ("gap", self.gap, "full loss - mean sampled loss", "measured"),
        )
        note = (f"standard error {self.error:.2g} on {self.instances} instances",)
        return tuple(
            BoundTerm(name, value, formula, source, value >= self.loss, None, note if name == "gap" else ())
            for name, value, formula, source in rows
        )


def sampler_gap(
    scores: Tensor, positive: Tensor, q: Tensor, negatives: int, draws: int = 200, seed: int = 0
) -> SamplerGap:
    """Lemma 3 for instances: scores [n, N], the positive's column [n], sampling probabilities of all columns [n, N].

    The probability of the positive is set to 0 and the rest is normalized. A column without a node has score -inf.
    """
    logp = scores.double().log_softmax(1)
    own = logp.gather(1, positive[:, None])  # [n, 1]
    q = _negatives(q.double().masked_fill(logp == NOTHING, 0.0), positive)
    there = q > 0
    p = logp.exp()
    plus = p + own.exp() * q
    ratio = torch.where(there, p / q, 0.0)  # [n, N]
    kl = torch.where(there, q * (q.log() - logp), 0.0).sum(1)
    kl_plus = (
        torch.where(there, q * (q.log() - plus.log()), 0.0).sum(1).clamp(min=0.0)
    )  # clamped against rounding
    second = torch.where(there, p * ratio, 0.0).sum(1)
    delta = (second - torch.where(there, p, 0.0).sum(1) ** 2) / (2 * negatives)
    gap, error = _monte_carlo(own.exp(), ratio, q, negatives, draws, seed)
    return SamplerGap(
        kl=float(kl.mean()),
        kl_plus=float(kl_plus.mean()),
        delta=float(delta.mean()),
        gap=gap,
        error=error,
        loss=float(-own.mean()),
        positive=float(own.exp().mean()),
        instances=len(scores),
        negatives=negatives,
    )


def plus_shares(scores: Tensor, positive: Tensor, q: Tensor) -> Tensor:
    """p+ [n, N]: replaces the softmax probabilities, 0 for the positive; sums to 1 over the negatives."""
    p, q = scores.double().softmax(1), _negatives(q.double(), positive)
    shares = p + p.gather(1, positive[:, None]) * q
    return shares.scatter(1, positive[:, None], 0.0)


def _negatives(q: Tensor, positive: Tensor) -> Tensor:
    """Normalized probabilities of the negatives."""
    others = q.scatter(1, positive[:, None], 0.0)
    total = others.sum(1, keepdim=True)
    if not bool((total > 0).all()) or bool((others < 0).any()):
        raise DataError(
            "sampler gap: every instance needs a negative with a positive probability, and none below 0"
        )
    return others / total


def _monte_carlo(
    own: Tensor, ratio: Tensor, q: Tensor, negatives: int, draws: int, seed: int
) -> tuple[float, float]:
    """The Monte Carlo mean of the gap over instances and draws, and its standard error for these instances."""
    generator = torch.Generator(q.device).manual_seed(seed)
    each = max(1, min(draws, CELLS // max(negatives * len(q), 1)))
    total, square, done = torch.zeros_like(own[:, 0]), torch.zeros_like(own[:, 0]), 0
    while done < draws:
        now = min(each, draws - done)
        sampled = torch.multinomial(q, now * negatives, replacement=True, generator=generator)
        mean = ratio.gather(1, sampled).view(len(q), now, negatives).mean(2)
        value = -(own + mean).log()  # [n, now]
        total, square, done = total + value.sum(1), square + value.square().sum(1), done + now
    means = total / draws
    variance = (square / draws - means**2).clamp(min=0) / max(draws - 1, 1)
    return float(means.mean()), math.sqrt(float(variance.sum())) / len(q)


@dataclass(frozen=True)
class LevelGap:
    """A level of a tree under one sampler; a level used in full has no gap."""

    sampler: str
    level: int
    size: int
    whole: bool
    estimates: SamplerGap


def sampler_levels(
    index: TreeIndex,
    histories: Tensor,
    labels: Tensor,
    negatives: int = 70,
    mix: float = 0.0,
    samplers: Sequence[str] = SAMPLERS,
    draws: int = 50,
    seed: int = 0,
) -> list[LevelGap]:
    """Lemma 3 on every trained level of a tree, for uniform and for tree sampling: histories [n, K], labels [n].

    The specification requires 200 instances or more. Labels without a leaf are left out.
    """
    shape, leaves = index.tree.shape, index.tree.leaves(labels)
    kept = leaves >= 0
    if not bool(kept.any()):
        raise DataError("sampler gap: expected instances whose item is in the tree, got none")
    histories, leaves = histories[kept], leaves[kept]
    levels = tuple(range(index.first, shape.height + 1))
    first = TreeSampler(negatives).first(shape, levels)
    found: dict[tuple[str, int], list[SamplerGap]] = {}
    for start in range(0, len(leaves), ONCE):
        batch = slice(start, start + ONCE)
        values = level_scores(index, histories[batch])
        filled = {level: values[level].clamp(min=FINITE) for level in range(first, shape.height + 1)}
        proposals = log_proposal(shape, filled, first, mix) if "tree" in samplers else {}
        for sampler in samplers:
            for level in levels:
                whole = shape.sizes[level] <= negatives + 1
                uniform = sampler == "uniform" or level < first
                q = (values[level] > NOTHING).double() if uniform else proposals[level].exp()
                at = shape.ancestor(leaves[batch], level)
                gap = _without_sampling(values[level], at, negatives) if whole else None
                gap = gap or sampler_gap(values[level], at, q, negatives, draws, seed + start + level)
                found.setdefault((sampler, level), []).append(gap)
    return [
        LevelGap(sampler, level, shape.sizes[level], shape.sizes[level] <= negatives + 1, _pooled(parts))
        for (sampler, level), parts in found.items()
    ]


def _without_sampling(scores: Tensor, positive: Tensor, negatives: int) -> SamplerGap:
    """A level whose nodes are all used: there is no gap."""
    own = scores.double().log_softmax(1).gather(1, positive[:, None])
    loss, share = float(-own.mean()), float(own.exp().mean())
    return SamplerGap(0.0, 0.0, 0.0, 0.0, 0.0, loss, share, len(scores), negatives)


def _pooled(parts: Sequence[SamplerGap]) -> SamplerGap:
    """The mean over all instances."""
    count = sum(part.instances for part in parts)

    def mean(name: str) -> float:
        return math.fsum(getattr(part, name) * part.instances for part in parts) / count

    error = math.sqrt(math.fsum((part.error * part.instances) ** 2 for part in parts)) / count
    return SamplerGap(
        kl=mean("kl"),
        kl_plus=mean("kl_plus"),
        delta=mean("delta"),
        gap=mean("gap"),
        error=error,
        loss=mean("loss"),
        positive=mean("positive"),
        instances=count,
        negatives=parts[0].negatives,
    )
