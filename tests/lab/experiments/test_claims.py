import math

import numpy as np
import pytest
import torch

from shortlist.evaluate.scores import Scores
from shortlist.lab.experiments.claims import better, pooled


def scores(*values: float) -> Scores:
    return Scores({"recall@20": torch.tensor(values, dtype=torch.float64)}, {})


def test_a_claim_holds_only_if_it_holds_for_every_seed():
    up, down = (scores(0.5, 0.6, 0.7), scores(0.1, 0.2, 0.3)), (scores(0.1, 0.2, 0.3), scores(0.5, 0.6, 0.7))
    assert better("a > b", [up, up], [0, 1]).holds
    mixed = better("a > b", [up, down], [0, 1])
    assert not mixed.holds
    assert mixed.interval[0] < 0 < mixed.interval[1]


ROUNDED = (148, 198, 220)


def thirds(seed: int) -> tuple[Scores, Scores]:
    """Recalls of users with three relevant items each; the interval of their difference begins at 0, up to rounding."""
    rng = np.random.default_rng(seed)
    return scores(*rng.integers(0, 4, 12) / 3), scores(*rng.integers(0, 3, 12) / 3)


@pytest.mark.parametrize("seed", ROUNDED)
def test_an_interval_end_of_0_up_to_rounding_decides_no_claim(seed):
    up, down = thirds(seed)
    claims = (
        better("up > down", [(up, down)], [0]),
        pooled("up > down", "test", [{"": up}], [{"": down}], True, "recall@20"),
    )
    for one in claims:
        assert 0 < one.interval[0] < 1e-15
        assert not one.holds
    assert "no clear difference" in claims[1].note
    least = pooled("down >= up", "test", [{"": down}], [{"": up}], False, "recall@20")
    assert least.holds


def test_no_claim_holds_without_users():
    no_users = {"": scores(math.nan, math.nan)}
    for strict in (True, False):
        assert not pooled("a >= b", "test", [no_users], [no_users], strict, "recall@20").holds
