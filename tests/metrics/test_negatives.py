import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from shortlist.errors import ConfigError
from shortlist.metrics.negatives import keyed_negatives


def drawn(events, n_items, n_neg, seed=0):
    """Negatives of events 0, 1, ... with random targets."""
    targets = np.random.default_rng(1).integers(0, n_items, events)
    return targets, keyed_negatives(np.arange(events), targets, n_items, n_neg, seed)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 300), st.integers(1, 320), st.integers(0, 12), st.integers(0, 2**70))
def test_negatives_are_different_items_other_than_the_target(n_items, n_neg, events, seed):
    targets, items = drawn(events, n_items, n_neg, seed)
    assert items.shape == (events, min(n_neg, n_items - 1))
    assert ((items >= 0) & (items < n_items)).all()
    assert (items != targets[:, None]).all()
    assert (np.diff(np.sort(items, axis=1), axis=1) > 0).all()


def test_negatives_depend_on_event_target_and_seed_alone():
    """Test 27 of the specification of two time scales: any batch, any number of threads."""
    targets, items = drawn(3000, 900, 400)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert (drawn(3000, 900, 400)[1] == items).all()
    finally:
        torch.set_num_threads(threads)
    some = np.random.default_rng(0).permutation(3000)[:70]
    assert (keyed_negatives(some, targets[some], 900, 400, 0) == items[some]).all()
    assert (keyed_negatives(np.array([5]), targets[5:6], 900, 400, 0)[0] == items[5]).all()
    # Fewer negatives are the first of more.
    assert (keyed_negatives(some, targets[some], 900, 40, 0) == items[some, :40]).all()


def test_negatives_are_the_same_in_every_process_and_release():
    """Test 27 of the specification of two time scales."""
    items = keyed_negatives(np.array([0, 7, 10**12]), np.array([3, 99, 0]), 3706, 5, 11)
    assert items.tolist() == [
        [1737, 1412, 2253, 822, 2925],
        [1984, 434, 1834, 2116, 2833],
        [1784, 1171, 3510, 651, 524],
    ]


@pytest.mark.parametrize("n_items", [40, 503, 3706])
def test_negatives_are_uniform_over_the_other_items_and_pairs_of_them(n_items):
    events, n_neg = 6000, n_items // 4
    targets = np.zeros(events, int)
    items = keyed_negatives(np.arange(events), targets, n_items, n_neg, 2) - 1
    others = n_items - 1
    counts = np.bincount(items.ravel(), minlength=others)
    share = n_neg / others
    square = ((counts - events * share) ** 2).sum() / (events * share * (1 - share)) * (others - 1) / others
    assert stats.chi2.sf(square, others - 1) > 1e-4
    # The first value, and the step to the second one, which a weak network would repeat.
    steps = (items[:, 1] - items[:, 0]) % others - 1
    for values, size in ((items[:, 0], others), (steps, others - 1)):
        cells = min(size, 37)
        expected = np.bincount(np.arange(size) * cells // size) * events / size
        assert stats.chisquare(np.bincount(values * cells // size, minlength=cells), expected).pvalue > 1e-4
    both = np.isin(items, (0, 1)).sum(1) == 2
    assert both.mean() == pytest.approx(
        share * (n_neg - 1) / (others - 1), abs=4.5 * (share * share / events) ** 0.5
    )


def test_another_seed_gives_other_negatives_and_events_are_independent():
    targets, items = drawn(2000, 1000, 100)
    other = drawn(2000, 1000, 100, seed=1)[1]
    for a, b in ((items, other), (items[:-1], items[1:])):
        common = [len(np.intersect1d(one, two)) for one, two in zip(a, b, strict=True)]
        assert np.mean(common) == pytest.approx(100 * 100 / 999, abs=0.35)
    assert len(targets) == 2000


def test_many_items_and_few_items():
    items = keyed_negatives(np.arange(50), np.full(50, 2**31 - 1), 2**31, 20, 0)
    assert items.max() > 2**30
    assert (np.diff(np.sort(items, axis=1)) > 0).all()
    assert keyed_negatives(np.arange(2), np.array([0, 1]), 2, 499, 0).tolist() == [[1], [0]]
    assert keyed_negatives(np.arange(2), np.zeros(2, int), 1, 499, 0).shape == (2, 0)


@pytest.mark.parametrize(("n_items", "n_neg"), [(0, 5), (2**31 + 1, 5), (10, 0)])
def test_sizes_out_of_range_are_refused(n_items, n_neg):
    with pytest.raises(ConfigError, match=r"expected 1 to 2\^31 items and n_neg from 1"):
        keyed_negatives(np.zeros(1, int), np.zeros(1, int), n_items, n_neg, 0)
