"""Calibration of frozen experts on a held-out slice."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError, DataError
from shortlist.train.pools import calibrate

SCORES = torch.tensor([0.0, 1.0, 2.0, 3.0, torch.nan, torch.nan])
REWARDS = torch.tensor([1.0, 3.0, 5.0, 7.0, 0.5, 1.5])


def test_an_affine_calibration_is_least_squares_and_missing_scores_have_their_own_mean() -> None:
    fit = calibrate(SCORES, REWARDS)
    assert torch.allclose(fit(SCORES), torch.tensor([1.0, 3.0, 5.0, 7.0, 1.0, 1.0]))
    assert fit(torch.tensor([10.0])).item() == pytest.approx(21.0)
    random = np.random.default_rng(0)
    x, y = torch.from_numpy(random.normal(size=50)), torch.from_numpy(random.normal(size=50))
    slope, shift = np.polyfit(x, y, 1)
    assert torch.allclose(calibrate(x, y)(x), slope * x + shift)


def test_an_isotonic_calibration_never_falls_and_keeps_the_mean_outcome() -> None:
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(400, generator=random).double()
    rewards = (torch.rand(400, generator=random) < scores.sigmoid()).double()
    fit = calibrate(scores, rewards, "isotonic")
    found = fit(scores.sort().values)
    assert found.diff().min() >= 0
    assert found.mean().item() == pytest.approx(rewards.mean().item(), abs=0.02)
    assert 0 <= found.min() <= found.max() <= 1


@pytest.mark.parametrize("method", ["affine", "isotonic"])
def test_a_constant_score_predicts_the_mean_outcome(method: str) -> None:
    fit = calibrate(torch.full((4,), 1e9), REWARDS[:4], method)
    assert fit(torch.tensor([1e9, 0.0, torch.nan])).tolist() == pytest.approx([4.0, 4.0, 4.0])


def test_a_nominator_that_returns_nothing_predicts_the_mean_outcome() -> None:
    fit = calibrate(torch.full((4,), torch.nan), REWARDS[:4])
    assert fit(torch.tensor([torch.nan, 3.0])).tolist() == pytest.approx([4.0, 4.0])


def test_bad_slices_are_refused() -> None:
    with pytest.raises(ConfigError, match="affine or isotonic, got 'platt'"):
        calibrate(SCORES, REWARDS, "platt")
    with pytest.raises(DataError, match="rewards must be finite numbers, got 1 others"):
        calibrate(SCORES[:2], torch.tensor([0.0, torch.nan]))
    with pytest.raises(DataError, match=r"got \(6,\) and \(2,\)"):
        calibrate(SCORES, REWARDS[:2])
