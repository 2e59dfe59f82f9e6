from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from shortlist.diagnose.full_catalog import compare_to_flat, judged, threshold
from shortlist.diagnose.sample import panel
from shortlist.grammar import Scorer, as_pipeline
from shortlist.pipeline import Optional, run
from shortlist.stages import Seen
from tests.diagnose.held_out_of import cases_of
from tests.diagnose.test_follow_items import wants
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


def by_hand(pipeline, scorer, one, allowed=None):
    """Accuracy among candidates and among all items, with gain and loss, one user after the other."""
    rows = []
    for batch in one.batches:
        for row in range(len(batch.truth)):
            query = batch.query.take(slice(row, row + 1))
            wish = set(batch.truth[row].tolist()) - {-1}
            step = next(s for s in run(pipeline, query).trace.steps if s.name == scorer.title)
            mine = step.before.items[step.before.valid].tolist()
            every = [item for item in range(one.n_items) if allowed is None or allowed(query, item)]
            field = Listed(torch.tensor(every), torch.zeros(len(every)), limit=one.n_items)(query, None)
            scores = dict(zip(every, scorer.score(query, field)[0].tolist(), strict=True))
            near = first_of(mine, np.array([scores[item] for item in mine]))
            far = first_of(every, np.array([scores[item] for item in every]))
            rows.append(
                (
                    near in wish,
                    far in wish,
                    near in wish and far not in wish,
                    far in wish and near not in wish,
                    far in mine,
                    bool(wish & set(mine)),
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
        one = panel(wants(8, salt), N_ITEMS)
        told = compare_to_flat(pipeline, one, chunk=7)
        rows = by_hand(pipeline, scorer, one)
        assert told.accuracy == rows[:, 0].mean()
        assert told.accuracy_flat == rows[:, 1].mean()
        assert told.gain.mean == rows[:, 2].mean()
        assert told.loss.mean == rows[:, 3].mean()
        assert told.gain.mean - told.loss.mean == pytest.approx(told.accuracy - told.accuracy_flat, abs=1e-12)
        assert told.difference.mean == pytest.approx(told.accuracy - told.accuracy_flat, abs=1e-12)
        # What is lost is lost because the first of all items is no candidate.
        assert not (rows[:, 3] & rows[:, 4]).any()
        if told.threshold is not None:
            assert np.sign(np.round(told.threshold - told.missed, 12)) == np.sign(
                np.round(told.accuracy - told.accuracy_flat, 12)
            )


def test_all_items_as_candidates_are_the_exhaustive_ranker():
    scorer = RandomScorer(name="rank", sides=1009)
    pipeline = as_pipeline(listed("all", range(N_ITEMS)).renewed(limit=N_ITEMS) >> scorer % 5)
    told = compare_to_flat(pipeline, panel(wants(40), N_ITEMS))
    assert (told.gain.mean, told.loss.mean, told.answer) == (0.0, 0.0, "undecided")


def test_one_candidate_leaves_the_ranker_no_choice_and_the_slate_is_the_retrievers():
    pipeline = as_pipeline(
        RandomNominator(name="n0", width=5, limit=1) >> RandomScorer(name="rank", sides=1009) % 1
    )
    one = panel(wants(6), N_ITEMS)
    for batch in one.batches:
        steps = run(pipeline, batch.query).trace.steps
        assert torch.equal(steps[0].after.items, steps[1].after.items)


def test_the_order_of_candidates_does_not_matter():
    rows = list(range(0, 30, 2))
    scorer = RandomScorer(name="rank", sides=5)
    told = [
        compare_to_flat(as_pipeline(listed("a", order) >> scorer % 3), panel(wants(20), N_ITEMS)).as_dict()
        for order in (rows, rows[::-1])
    ]
    assert told[0] == told[1]


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

    one = panel(wants(25, 3), N_ITEMS)
    told, rows = compare_to_flat(pipeline, one, chunk=11), by_hand(pipeline, scorer, one, allowed)
    assert told.accuracy == rows[:, 0].mean()
    assert told.accuracy_flat == rows[:, 1].mean()


def test_a_trained_looking_pipeline_gives_candidates_the_scores_it_gave_them():
    pipeline, one = tiny(), panel(wants(40), N_ITEMS)
    told = compare_to_flat(pipeline, one, chunk=9)
    assert told.pointwise
    assert told.stage == "rank"
    assert told.difference.mean == pytest.approx(told.accuracy - told.accuracy_flat, abs=1e-12)


def test_the_worked_threshold():
    assert threshold(0.8, 0.6) == pytest.approx(0.5)
    missed, retrieved, flat = 0.5, 0.6, 0.8  # retrieval that misses half is then as good as none
    assert missed + retrieved * (1 - missed) == pytest.approx(flat)
    assert threshold(0.5, 0.9) < 0
    assert threshold(0.5, 1.0) is None
    assert threshold(0.5, None) is None


def test_the_answer_is_read_from_the_interval_only():
    one = panel(wants(60), N_ITEMS)
    yes, no = np.ones(60, bool), np.zeros(60, bool)
    some = np.arange(60) % 30 == 0
    assert judged("rank", one, yes, no, yes).answer == "helps"
    assert judged("rank", one, no, yes, yes).answer == "hurts"
    assert judged("rank", one, some, no, yes).answer == "undecided"  # 2 of 60: chance
    few = panel(wants(5), N_ITEMS)
    assert judged("rank", few, yes[:5], no[:5], yes[:5]).answer == "undecided"


def test_a_scorer_that_looks_at_the_other_candidates_is_found_out():
    for scorer in (Mean(name="rank"), Declared(name="rank"), Optional(Mean(name="rank"))):
        told = compare_to_flat(
            as_pipeline(RandomNominator(name="n0") >> scorer % 3), panel(wants(20), N_ITEMS)
        )
        assert not told.pointwise
        assert told.answer == "undecided"
        assert "candidate" in told.as_dict()["why"]
        assert told.gain is None


def test_broken_scores_do_not_make_a_scorer_listwise():
    told = compare_to_flat(
        as_pipeline(RandomNominator(name="n0") >> RandomScorer(name="rank", broken=True) % 3),
        panel(wants(20), N_ITEMS),
    )
    assert told.pointwise
    assert told.difference.mean == pytest.approx(told.accuracy - told.accuracy_flat, abs=1e-12)


def test_a_guarded_scorer_with_its_cut_inside_is_judged_like_any_other():
    scorer, nominator = RandomScorer(name="rank", sides=100_003), RandomNominator(name="n0", width=12)
    one = panel(wants(30), N_ITEMS)
    plain = compare_to_flat(as_pipeline(nominator >> scorer % 3), one).as_dict()
    guarded = compare_to_flat(as_pipeline(nominator >> Optional(scorer % 3)), one).as_dict()
    assert plain == guarded
    assert 0 < plain["p_value"] <= 1


def test_without_a_scorer_there_is_no_verdict():
    assert compare_to_flat(as_pipeline(listed("a", [1]) >> Seen()), panel(wants(2), N_ITEMS)) is None


def test_nobody_with_candidates_is_answered():
    pipeline = as_pipeline(listed("a", [-1, -1]) >> RandomScorer(name="rank") % 2)
    told = compare_to_flat(pipeline, panel(cases_of([([0], [1])]), 10))
    assert (told.accuracy, told.missed, told.threshold, told.error_retrieved) == (0.0, 1.0, None, None)


def test_cases_of_one_user_are_not_tested_as_if_they_were_users():
    """An exact test takes its trials for independent: with several cases of a user there is only the interval."""
    alone = wants(40)
    twice = alone.take(np.repeat(np.arange(40), 2))
    yes, no = np.ones(80, bool), np.zeros(80, bool)
    assert judged("rank", panel(alone, N_ITEMS), yes[:40], no[:40], yes[:40]).p_value == 2 * 0.5**40
    told = judged("rank", panel(twice, N_ITEMS), yes, no, yes)
    assert (told.p_value, told.answer) == (None, "helps")
