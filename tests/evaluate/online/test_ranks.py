import sys

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.online import OnlineTest, ranks
from shortlist.evaluate.online.predict import predict
from shortlist.metrics.negatives import keyed_negatives
from shortlist.metrics.sampled import expected_sampled_metrics
from tests.evaluate.online.worlds import ITEMS, FixedScores, models, small_split, small_test, state_model


def rank_among(scores, target, items):
    """1 + the number of higher scores + half of the other ties, by counting."""
    others = [item for item in items if item != target]
    higher = sum(scores[item] > scores[target] for item in others)
    return 1 + higher + sum(scores[item] == scores[target] for item in others) / 2


def by_hand(model, test, n_neg):
    """Ranks raw, excl and sampled of every event, one after the other [3, n]."""
    found = []
    for row in range(len(test)):
        scores, target = model.scores_at(test, np.array([row]))[0].tolist(), test.targets[row]
        seen = set(test.events.items[test.starts[row] : test.before[row]].tolist())
        own = keyed_negatives(test.positions[[row]], test.targets[[row]], test.n_items, n_neg, test.seed)[0]
        candidates = (range(test.n_items), set(range(test.n_items)) - seen, own)
        found.append([rank_among(scores, target, items) for items in candidates])
    return np.array(found).T


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("small", [False, True])
def test_ranks_are_those_of_counting_one_event_after_the_other(ties, block, small, monkeypatch):
    if small:
        monkeypatch.setattr(sys.modules[predict.__module__], "CELLS", 4 * ITEMS)
        monkeypatch.setattr(sys.modules[ranks.__module__], "PAIRS", 25)
    test, model = small_test(block), FixedScores(ties=ties)
    found = ranks(model, test, n_neg=9)
    expected = by_hand(model, test, n_neg=9)
    assert (found.raw == expected[0]).all()
    assert (found.excl == expected[1]).all()
    assert (found.sampled == expected[2]).all()
    assert (found.excl <= found.raw).all()
    assert (found.excl < found.raw).any()


def test_the_target_stays_where_it_was_consumed_before():
    log = Interactions.of([0] * 4, [0, 1, 0, 0], np.arange(4), n_items=5)
    test = OnlineTest(log, np.array([3]), np.array([2]))

    class Order:
        def scores_at(self, test, rows):
            return torch.arange(5.0).flip(0).expand(len(rows), -1)  # item 0 is first, item 1 second

    found = ranks(Order(), test)
    assert (found.raw, found.excl) == (1, 1)
    test = OnlineTest(
        Interactions.of([0] * 4, [0, 1, 0, 2], np.arange(4), n_items=5), test.positions, np.array([2])
    )
    found = ranks(Order(), test)
    assert (found.raw, found.excl) == (3, 1)


class RandomScores:
    """Other random scores at every call."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)

    def scores_at(self, test, rows):
        return torch.rand(len(rows), test.n_items, generator=self.generator)


def large_test(events, n_items):
    """A test of one event of each user."""
    items = np.random.default_rng(0).integers(0, n_items, events)
    log = Interactions.of(np.arange(events), items, np.zeros(events, int), n_items=n_items)
    return OnlineTest(log, np.arange(events), np.zeros(events, int))


@pytest.mark.parametrize("n_items", [500, 560])
def test_25_random_scores_among_500_candidates(n_items):
    """Test 25 of the specification of two time scales: all items, or negatives that are drawn."""
    rank = ranks(RandomScores(), large_test(100_000, n_items)).sampled
    assert (1 / rank).mean() == pytest.approx(0.0135856, abs=0.0005)
    assert (rank <= 10).mean() == pytest.approx(0.02, abs=0.001)


def test_28_equal_scores_get_no_credit():
    """Test 28 of the specification of two time scales."""

    class Equal:
        def scores_at(self, test, rows):
            return torch.full((len(rows), test.n_items), self.value)

    test = large_test(50, 1001)
    for value in (0.0, 3.5, torch.inf, -torch.inf):
        Equal.value = value
        found = ranks(Equal(), test)
        assert (found.raw == 501).all()
        assert (found.excl == 501).all()
        assert (found.sampled == 250.5).all()


def test_27_negatives_are_the_same_for_every_model_and_batch(monkeypatch):
    """Test 27 of the specification of two time scales."""
    split = small_split()
    module = sys.modules[ranks.__module__]
    drawn = {}

    def remembered(events, targets, *rest):
        items = keyed_negatives(events, targets, *rest)
        for event, own in zip(events.tolist(), items.tolist(), strict=True):
            assert drawn.setdefault(event, own) == own
        return items

    monkeypatch.setattr(module, "keyed_negatives", remembered)
    test = OnlineTest.of(split)
    for model in (*models(split).values(), state_model(split), FixedScores()):
        ranks(model, test, n_neg=7)
        ranks(model, test.at(np.arange(5, 20)), n_neg=7)
    assert sorted(drawn) == test.positions.tolist()


def test_a_sample_of_events_has_the_same_drawn_ranks():
    test, model = small_test(), FixedScores()
    whole = ranks(model, test, n_neg=5)
    some, fewer = (ranks(model, test, n_neg=5, sampled_events=count) for count in (20, 8))
    for part, count in ((some, 20), (fewer, 8)):
        known = ~np.isnan(part.sampled)
        assert known.sum() == count
        assert (part.sampled[known] == whole.sampled[known]).all()
        assert (part.raw == whole.raw).all()
    assert not np.isnan(some.sampled[~np.isnan(fewer.sampled)]).any()
    none = ranks(model, test, n_neg=0)
    assert np.isnan(none.sampled).all()
    assert (none.expected()[0] == expected_sampled_metrics(none.raw, ITEMS)[0]).all()
    with pytest.raises(ConfigError, match="sampled_events from 1"):
        ranks(model, test, sampled_events=0)


def test_expected_ranks_are_the_mean_of_drawn_ones():
    split = small_split()
    model = FixedScores()
    drawn = [ranks(model, OnlineTest.of(split, seed=seed), n_neg=6) for seed in range(300)]
    reciprocal, recall = drawn[0].expected(k=2)
    assert np.mean([1 / one.sampled for one in drawn], 0) == pytest.approx(reciprocal, abs=0.09)
    assert np.mean([1 / one.sampled for one in drawn]) == pytest.approx(reciprocal.mean(), abs=0.006)
    assert np.mean([one.sampled <= 2 for one in drawn]) == pytest.approx(recall.mean(), abs=0.01)


def test_a_better_score_of_the_target_never_gives_a_worse_rank():
    class Raised(FixedScores):
        def scores_at(self, test, rows):
            scores = super().scores_at(test, rows)
            return scores.scatter_add(
                1, torch.from_numpy(test.targets[rows])[:, None], torch.ones(len(rows), 1)
            )

    test = small_test()
    before, after = (ranks(kind(), test, n_neg=9) for kind in (FixedScores, Raised))
    for kind in ("raw", "excl", "sampled"):
        assert (getattr(after, kind) <= getattr(before, kind)).all()


def test_scores_of_other_types_have_the_same_ranks():
    class Typed(FixedScores):
        def scores_at(self, test, rows):
            return super().scores_at(test, rows).to(self.kind)

    found = []
    for kind in (torch.float64, torch.float32, torch.bfloat16, torch.int64):
        Typed.kind = kind
        found.append(ranks(Typed(ties=True), small_test(), n_neg=9))
    for one in found[1:]:
        assert (one.raw == found[0].raw).all()
        assert (one.sampled == found[0].sampled).all()


def test_a_nan_score_fails_the_run():
    class Broken(FixedScores):
        def scores_at(self, test, rows):
            scores = super().scores_at(test, rows)
            scores[rows == 7, 3] = torch.nan
            return scores

    test = small_test()
    at = test.positions[7]
    message = rf"a score before the event at position {at} \(user row {test.users[7]}, .* is NaN; train with"
    with pytest.raises(DataError, match=message):
        ranks(Broken(), test)


def test_scores_of_another_shape_and_sizes_out_of_range_are_refused():
    class Narrow:
        def scores_at(self, test, rows):
            return torch.zeros(len(rows), 4)

    test = small_test()
    with pytest.raises(DataError, match=rf"scores of shape \[{len(test)}, 30\], got \[{len(test)}, 4\]"):
        ranks(Narrow(), test)
    with pytest.raises(ConfigError, match="n_neg from 0, got 30 and -1"):
        ranks(FixedScores(), test, n_neg=-1)


def test_some_events_have_the_ranks_of_all():
    test, rows = small_test(), np.array([1, 4, 30])
    whole = ranks(FixedScores(), test)
    part = ranks(FixedScores(), test.at(rows))
    assert (part.excl == whole.at(rows).excl).all()
    assert (part.sampled == whole.at(rows).sampled).all()
