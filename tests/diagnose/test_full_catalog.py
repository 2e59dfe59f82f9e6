from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from shortlist.diagnose.full_catalog import compare_to_full_catalog, threshold, verdict_of
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import sample_users
from shortlist.grammar import Scorer, as_pipeline
from shortlist.pipeline import Optional, run
from shortlist.stages import Seen
from tests.diagnose.held_out import held_out_of
from tests.diagnose.test_follow_items import random_requests
from tests.worlds import N_ITEMS, Listed, RandomFilter, RandomNominator, RandomScorer, listed, tiny


@dataclass(frozen=True, eq=False, repr=False)
class Mean(Scorer):
    """Scores by the distance from the mean of the candidates' items: it depends on the others."""

    def score(self, query, found):
        items = found.items.float().masked_fill(~found.valid, 0)
        return -(found.items - items.sum(1, keepdim=True) / found.valid.sum(1, keepdim=True)).abs()


@dataclass(frozen=True, eq=False, repr=False)
class Declared(RandomScorer):
    pointwise: ClassVar[bool] = False


def first_of(items, scores):
    """The best-scored item, the lower row at ties."""
    return min(zip(-scores, items, strict=True))[1] if len(items) else -1


def by_hand(pipeline, scorer, sample, allowed=None):
    """Accuracy among candidates and among all items, with gain and loss, one user after the other."""
    rows = []
    for batch in sample.batches:
        for row in range(len(batch.relevant)):
            query = batch.query.take(slice(row, row + 1))
            relevant = set(batch.relevant[row].tolist()) - {-1}
            step = next(s for s in run(pipeline, query).trace.steps if s.name == scorer.title)
            mine = step.before.items[step.before.valid].tolist()
            every = [item for item in range(sample.n_items) if allowed is None or allowed(query, item)]
            field = Listed(torch.tensor(every), torch.zeros(len(every)), limit=sample.n_items)(query, None)
            scores = dict(zip(every, scorer.score(query, field)[0].tolist(), strict=True))
            near = first_of(mine, np.array([scores[item] for item in mine]))
            far = first_of(every, np.array([scores[item] for item in every]))
            rows.append(
                (
                    near in relevant,
                    far in relevant,
                    near in relevant and far not in relevant,
                    far in relevant and near not in relevant,
                    far in mine,
                    bool(relevant & set(mine)),
                )
            )
    return np.array(rows)


@pytest.mark.parametrize("seed", range(12))
def test_300_random_systems_keep_the_identity_of_gain_and_loss(seed):
    for number in range(25):
        salt = 25 * seed + number
        scorer = RandomScorer(name="rank", salt=salt, sides=[3, 50, 100_003][salt % 3])
        pipeline = as_pipeline(
            RandomNominator(name="n0", width=1 + salt % 30, limit=30, salt=salt) >> scorer % 3
        )
        sample = sample_users(random_requests(8, salt), N_ITEMS)
        verdict = compare_to_full_catalog(pipeline, sample, chunk=7)
        rows = by_hand(pipeline, scorer, sample)
        assert verdict.accuracy == rows[:, 0].mean()
        assert verdict.accuracy_full == rows[:, 1].mean()
        assert verdict.gain.mean == rows[:, 2].mean()
        assert verdict.loss.mean == rows[:, 3].mean()
        assert verdict.gain.mean - verdict.loss.mean == pytest.approx(
            verdict.accuracy - verdict.accuracy_full, abs=1e-12
        )
        assert verdict.difference.mean == pytest.approx(verdict.accuracy - verdict.accuracy_full, abs=1e-12)
        # A loss means that the first of all items is no candidate.
        assert not (rows[:, 3] & rows[:, 4]).any()
        if verdict.threshold is not None:
            assert np.sign(np.round(verdict.threshold - verdict.missed, 12)) == np.sign(
                np.round(verdict.accuracy - verdict.accuracy_full, 12)
            )


def test_all_items_as_candidates_equal_the_exhaustive_ranker():
    scorer = RandomScorer(name="rank", sides=1009)
    pipeline = as_pipeline(listed("all", range(N_ITEMS)).renewed(limit=N_ITEMS) >> scorer % 5)
    verdict = compare_to_full_catalog(pipeline, sample_users(random_requests(40), N_ITEMS))
    assert (verdict.gain.mean, verdict.loss.mean, verdict.answer) == (0.0, 0.0, "undecided")


def test_one_candidate_leaves_the_ranker_no_choice():
    pipeline = as_pipeline(
        RandomNominator(name="n0", width=5, limit=1) >> RandomScorer(name="rank", sides=1009) % 1
    )
    sample = sample_users(random_requests(6), N_ITEMS)
    for batch in sample.batches:
        steps = run(pipeline, batch.query).trace.steps
        assert torch.equal(steps[0].after.items, steps[1].after.items)


def test_verdict_does_not_depend_on_the_order_of_candidates():
    rows = list(range(0, 30, 2))
    scorer = RandomScorer(name="rank", sides=5)
    verdict = [
        compare_to_full_catalog(
            as_pipeline(listed("a", order) >> scorer % 3), sample_users(random_requests(20), N_ITEMS)
        )
        for order in (rows, rows[::-1])
    ]
    assert verdict[0] == verdict[1]


def test_filters_stay_in_force_and_cuts_go():
    sieve, scorer = RandomFilter(name="sieve", salt=3), RandomScorer(name="rank", sides=100_003)
    pipeline = as_pipeline(
        RandomNominator(name="n0", width=20, limit=20)
        >> sieve % 6
        >> RandomScorer(name="pre") % 4
        >> scorer % 2
    )

    def allowed(query, item):
        field = Listed(torch.tensor([item]), torch.zeros(1))(query, None)
        return bool(sieve.keep(query, field)[0, 0])

    sample = sample_users(random_requests(25, 3), N_ITEMS)
    verdict, rows = (
        compare_to_full_catalog(pipeline, sample, chunk=11),
        by_hand(pipeline, scorer, sample, allowed),
    )
    assert verdict.accuracy == rows[:, 0].mean()
    assert verdict.accuracy_full == rows[:, 1].mean()


def test_candidates_keep_the_scores_of_the_pipeline():
    pipeline, sample = tiny(), sample_users(random_requests(40), N_ITEMS)
    verdict = compare_to_full_catalog(pipeline, sample, chunk=9)
    assert verdict.stage == "rank"
    assert verdict.difference.mean == pytest.approx(verdict.accuracy - verdict.accuracy_full, abs=1e-12)


def test_worked_example_of_the_threshold():
    assert threshold(0.8, 0.6) == pytest.approx(0.5)
    missed, retrieved, full = 0.5, 0.6, 0.8  # retrieval that misses half is then as good as none
    assert missed + retrieved * (1 - missed) == pytest.approx(full)
    assert threshold(0.5, 0.9) < 0
    assert threshold(0.5, 1.0) is None
    assert threshold(0.5, None) is None


def test_answer_follows_from_the_interval_only():
    sample = sample_users(random_requests(60), N_ITEMS)
    yes, no = np.ones(60, bool), np.zeros(60, bool)
    some = np.arange(60) % 30 == 0
    assert verdict_of("rank", sample, yes, no, yes).answer == "helps"
    assert verdict_of("rank", sample, no, yes, yes).answer == "hurts"
    assert verdict_of("rank", sample, some, no, yes).answer == "undecided"  # 2 of 60: not significant
    few = sample_users(random_requests(5), N_ITEMS)
    assert verdict_of("rank", few, yes[:5], no[:5], yes[:5]).answer == "undecided"


def test_listwise_scorer_is_not_measured():
    for scorer in (Mean(name="rank"), Declared(name="rank"), Optional(Mean(name="rank"))):
        verdict = compare_to_full_catalog(
            as_pipeline(RandomNominator(name="n0") >> scorer % 3), sample_users(random_requests(20), N_ITEMS)
        )
        assert isinstance(verdict, NotMeasured)
        assert "candidate" in verdict.why


def test_broken_scores_do_not_make_a_scorer_listwise():
    verdict = compare_to_full_catalog(
        as_pipeline(RandomNominator(name="n0") >> RandomScorer(name="rank", broken=True) % 3),
        sample_users(random_requests(20), N_ITEMS),
    )
    assert verdict.difference.mean == pytest.approx(verdict.accuracy - verdict.accuracy_full, abs=1e-12)


def test_guarded_scorer_with_its_cut_inside_has_the_same_verdict():
    scorer, nominator = RandomScorer(name="rank", sides=100_003), RandomNominator(name="n0", width=12)
    sample = sample_users(random_requests(30), N_ITEMS)
    plain = compare_to_full_catalog(as_pipeline(nominator >> scorer % 3), sample)
    guarded = compare_to_full_catalog(as_pipeline(nominator >> Optional(scorer % 3)), sample)
    assert plain == guarded
    assert 0 < plain.p_value <= 1


def test_without_a_scorer_there_is_no_verdict():
    pipeline, sample = as_pipeline(listed("a", [1]) >> Seen()), sample_users(random_requests(2), N_ITEMS)
    assert "no scorer" in compare_to_full_catalog(pipeline, sample).why


def test_no_candidates_have_a_verdict():
    pipeline = as_pipeline(listed("a", [-1, -1]) >> RandomScorer(name="rank") % 2)
    verdict = compare_to_full_catalog(pipeline, sample_users(held_out_of([([0], [1])]), 10))
    assert (verdict.accuracy, verdict.missed, verdict.threshold, verdict.error_retrieved) == (
        0.0,
        1.0,
        None,
        None,
    )


def test_requests_of_one_user_have_no_exact_test():
    """An exact test needs independent trials: with several requests per user there is only the interval."""
    alone = random_requests(40)
    twice = alone.take(np.repeat(np.arange(40), 2))
    yes, no = np.ones(80, bool), np.zeros(80, bool)
    assert (
        verdict_of("rank", sample_users(alone, N_ITEMS), yes[:40], no[:40], yes[:40]).p_value == 2 * 0.5**40
    )
    verdict = verdict_of("rank", sample_users(twice, N_ITEMS), yes, no, yes)
    assert (verdict.p_value, verdict.answer) == (None, "helps")
