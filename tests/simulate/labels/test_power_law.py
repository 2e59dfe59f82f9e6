import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.simulate.labels import PowerLawWorld, best_quality, slate_quality


@pytest.fixture(scope="module")
def rows():
    return PowerLawWorld().table(20_000)


def test_frequencies_have_the_shares_of_the_paper():
    rates = PowerLawWorld().frequencies
    assert rates.sum() == pytest.approx(10.73)
    assert rates[:5].sum() / rates.sum() == pytest.approx(0.1922, abs=5e-5)
    assert rates[50:].sum() / rates.sum() == pytest.approx(0.1985, abs=5e-5)
    assert (rates[0], rates[-1]) == (pytest.approx(0.477, abs=5e-4), pytest.approx(0.0283, abs=5e-5))
    assert rates[:5].mean() == pytest.approx(0.4125, abs=5e-5)  # precision@5 of the most frequent labels


def test_rows_have_these_frequencies_and_a_share_without_labels(rows):
    world = PowerLawWorld()
    assert rows.positivity == pytest.approx(0.1073, abs=2e-3)
    assert rows.top_share == pytest.approx(0.1922, abs=3e-3)
    assert rows.empty == pytest.approx(0.055, abs=5e-3)
    deviation = np.sqrt(world.frequencies * (1 - world.frequencies) / len(rows))
    assert np.abs((rows.popularity.numpy() - world.frequencies) / deviation).max() < 4.5


def test_popularity_is_far_below_the_best_scores_which_are_below_the_ceiling(rows):
    world = PowerLawWorld()
    popular = slate_quality(torch.from_numpy(world.frequencies).expand(len(rows), -1), rows.labels)
    known = torch.from_numpy(world.probabilities(rows.features.double().numpy()))
    best, ceiling = slate_quality(known, rows.labels), best_quality(rows.labels)
    precision = [float(one.precision.mean()) for one in (popular, best, ceiling)]
    assert precision[0] == pytest.approx(0.4125, abs=6e-3)
    assert precision[0] + 0.3 < precision[1] < precision[2] < 1 - 0.05


def test_known_probabilities_are_calibrated(rows):
    known = PowerLawWorld().probabilities(rows.features.double().numpy())
    true = rows.labels.numpy()
    for low in np.arange(0, 0.9, 0.1):
        inside = (known >= low) & (known < low + 0.1)
        assert true[inside].mean() == pytest.approx(known[inside].mean(), abs=0.02)


def test_at_kappa_1_a_feature_follows_its_own_block_only():
    world = PowerLawWorld(arms=20, width=40, blocks=4, positives=2.0)
    loadings = world.loadings.reshape(40, 4, 4)
    own = np.take_along_axis(loadings, world.block_of_feature[:, None, None], 1)
    assert np.square(own).sum((1, 2)) == pytest.approx(np.ones(40))
    assert np.square(loadings).sum((1, 2)) == pytest.approx(np.ones(40))
    even = PowerLawWorld(arms=20, width=40, blocks=4, positives=2.0, kappa=0.0)
    assert (np.square(even.loadings.reshape(40, 4, 4)).sum(2) > 0).all()


def test_parts_and_seeds_have_rows_of_their_own_and_the_same_rows_again():
    world = PowerLawWorld()
    first = world.table(50)
    assert torch.equal(first.features, PowerLawWorld().table(50).features)
    assert not torch.equal(first.features, world.table(50, 1).features)
    assert not torch.equal(first.features, PowerLawWorld(seed=1).table(50).features)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kappa": 1.5}, "kappa from 0 to 1"),
        ({"empty": 1.0}, "empty from 0 to below 1"),
        ({"positives": 60.0}, "lower positives"),
        ({"arms": 0}, "at least one arm"),
        ({"width": 5}, "one feature for each block"),
    ],
)
def test_a_world_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        PowerLawWorld(**changes)
