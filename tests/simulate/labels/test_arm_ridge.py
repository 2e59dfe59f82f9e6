import pytest
import torch

from shortlist.errors import DataError
from shortlist.simulate.labels.arm_ridge import ArmRidge


def direct(examples, arm, mask, penalty):
    """Inverse moments and coefficients of one arm, solved at once."""
    rows = [(x * mask, r) for x, a, r in examples if a == arm]
    moments = penalty * torch.eye(len(mask), dtype=torch.float64)
    target = torch.zeros(len(mask), dtype=torch.float64)
    for x, r in rows:
        moments += torch.outer(x, x)
        target += r * x
    inverse = torch.linalg.inv(moments)
    return inverse, inverse @ target


def test_scores_are_those_of_a_direct_solution_for_every_arm():
    random = torch.Generator().manual_seed(0)
    mask = (torch.rand(2, 2, 5, generator=random) < 0.7).double()
    owner = torch.tensor([[0, 1, 0], [1, 1, 0]])
    ridge = ArmRidge(mask, owner, 12, penalty=0.7)
    examples: list[list] = [[], []]
    for _ in range(12):
        x = torch.randn(2, 5, generator=random, dtype=torch.float64)
        arm, reward = torch.randint(3, (2,), generator=random), torch.rand(2, generator=random).double()
        ridge.update(x, arm, reward)
        for seed in range(2):
            examples[seed].append((x[seed], int(arm[seed]), reward[seed]))
    x = torch.randn(2, 5, generator=random, dtype=torch.float64)
    scores = ridge.scores(x, 0.3)
    for seed in range(2):
        for arm in range(3):
            shown = mask[seed, owner[seed, arm]]
            inverse, theta = direct(examples[seed], arm, shown, 0.7)
            seen = x[seed] * shown
            assert scores[seed, arm] == pytest.approx(
                float(seen @ theta + 0.3 * (seen @ inverse @ seen).sqrt()), abs=1e-10
            )
            assert bool((ridge.theta[seed, arm][shown == 0] == 0).all())


def test_more_examples_than_announced_are_refused():
    ridge = ArmRidge(torch.ones(1, 1, 2), torch.zeros(1, 3, dtype=torch.int64), 1)
    example = (torch.ones(1, 2), torch.tensor([0]), torch.ones(1))
    ridge.update(*example)
    with pytest.raises(DataError, match="at most 1 examples"):
        ridge.update(*example)
