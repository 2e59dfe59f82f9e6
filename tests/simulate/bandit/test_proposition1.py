"""Proposition 1: the regret of a well-specified ranker is sublinear whatever candidates it gets."""

import pytest
import torch

from shortlist.simulate.bandit import BatchRidge, LinearWorld

SEEDS, WIDTH, ARMS, ROUNDS, ALPHA = 20, 20, 50, 1000, 0.5


def worst_pair(scores, means):
    """The best arm beside the arm that the ranker scores higher and that loses most, or any other."""
    best = means.argmax(1, keepdim=True)
    fooled = scores >= scores.gather(1, best)
    other = torch.where(fooled, means, torch.full_like(means, torch.inf)).argmin(1, keepdim=True)
    return torch.cat([best, other], dim=1)


def random_pair(scores, means):
    order = torch.randperm(
        ARMS, generator=torch.Generator().manual_seed(int(means.abs().sum() * 1e6) % 2**31)
    )
    return order[:2].expand(SEEDS, 2)


@pytest.mark.parametrize("adversary", [worst_pair, random_pair])
def test_ranker_regret_is_sublinear_against_an_adversary(adversary):
    stream = LinearWorld(WIDTH, ARMS).rounds(range(SEEDS))
    ridge, regret, rows = (
        BatchRidge((SEEDS,), WIDTH),
        torch.zeros(SEEDS, dtype=torch.float64),
        torch.arange(SEEDS),
    )
    uniform, after, number = 0.0, {}, 0
    while number < 4 * ROUNDS:
        block = stream.next(4 * ROUNDS - number)
        for x, means, rewards in zip(*(one.unbind(1) for one in vars(block).values()), strict=True):
            number += 1
            scores = ridge.scores(x, 0.0) + ALPHA * ridge.width_of(x)
            candidates = adversary(scores, means)
            shown = candidates.gather(1, scores.gather(1, candidates).argmax(1, keepdim=True)).squeeze(1)
            regret += means.gather(1, candidates).amax(1) - means[rows, shown]
            ridge.update(x[rows, shown], rewards[rows, shown])
            uniform += float((means.amax(1) - means.mean(1)).mean())
            after[number] = float(regret.mean())
            if number == ROUNDS:
                assert after[number] <= 0.1 * uniform
    assert after[4 * ROUNDS] / after[ROUNDS] <= 2.3
