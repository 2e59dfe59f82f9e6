import dataclasses

import pytest
import torch

from shortlist.diagnose import diagnose
from shortlist.evaluate import compare, evaluate
from shortlist.evaluate.headline import BETTER, SAME, WORSE, below_warning, headline, verdict_of
from shortlist.evaluate.scores import Scores
from shortlist.metrics.significance import PairedTest, paired

USERS = 200


def scores(mean, seed=0):
    values = torch.rand(USERS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Scores({"recall@20": mean + 0.1 * values}, {})


BASELINES = {"popularity": scores(0.2, 1), "last click": scores(0.3, 2)}


def test_headline_has_the_value_the_best_baseline_and_popularity():
    found = headline(scores(0.5), BASELINES, "recall@20", "valid", 20, seed=3)
    assert (found.users, found.on, found.slate) == (USERS, "valid", 20)
    assert (found.best.baseline, found.popularity.baseline) == ("last click", "popularity")
    expected = paired(scores(0.5)["recall@20"], BASELINES["last click"]["recall@20"], seed=3, samples=2000)
    assert found.best.test == expected
    assert "on all 200 validation users, slates of 20: better than last click, the best baseline (" in str(
        found
    )
    assert ", and better than popularity (" in str(found)


@pytest.mark.parametrize(("mean", "verdict"), [(0.5, BETTER), (0.1, WORSE)])
def test_verdict_is_about_the_best_baseline(mean, verdict):
    found = headline(scores(mean), BASELINES, "recall@20", "test", 20)
    assert found.best.verdict == verdict
    assert f"{verdict} last click, the best baseline" in found.sentence


def test_system_that_equals_popularity_is_not_called_better():
    only = {"popularity": BASELINES["popularity"]}
    found = headline(only["popularity"], only, "recall@20", "test", 20)
    assert found.best is found.popularity
    assert found.sentence.count(f"{SAME} popularity, the best baseline (") == 1


@pytest.mark.parametrize("low", [-0.01, 1e-18])  # the second is 0 but for rounding
def test_interval_that_reaches_0_and_p_values_from_005_are_not_significant(low):
    test = PairedTest(0.1, low, 0.2, 0.01, 0.5, 10, 0, 1)
    assert verdict_of(test) == SAME
    clear = dataclasses.replace(test, low=0.05)
    assert (verdict_of(clear), verdict_of(clear, 0.05)) == (BETTER, SAME)


def test_only_baselines_whose_interval_lies_below_0_are_called_better_than_the_system():
    clear = PairedTest(-0.1, -0.15, -0.05, 0.001, -0.5, 1, 0, 10)
    unclear = dataclasses.replace(clear, difference=-0.01, low=-0.03, high=0.01)
    assert below_warning("a", "recall@20", {"ease": unclear}) == ()
    (text,) = below_warning("a", "recall@20", {"ease": unclear, "item-knn": clear})
    assert text == "a: is below item-knn by recall@20 (-0.1000, [-0.1500, -0.0500])"


@pytest.mark.parametrize("on", ["test", "valid"])
def test_evaluate_compare_and_diagnose_have_the_same_headline(recommender, world, on):
    """Also when the diagnosis samples few users for the rest."""
    evaluated = evaluate(recommender, world, on=on)
    compared = compare({"one": recommender}, world, on=on).systems["one"]
    diagnosed = diagnose(recommender, world, on=on, users=5)
    assert evaluated.headline == compared.headline == diagnosed.headline
    assert evaluated.headline.value == evaluated.metrics["pipeline"].metrics["recall@20"]
    assert evaluated.headline.best.test == evaluated.differences[evaluated.best_baseline]["recall@20"]
    assert (diagnosed.users, diagnosed.headline.users) == (5, evaluated.users)


def test_losses_of_a_diagnosis_on_all_users_are_those_of_the_evaluation(recommender, world):
    evaluated = evaluate(recommender, world, at=7)
    diagnosed = diagnose(recommender, world, on="test", at=7)
    assert diagnosed.headline == evaluated.headline
    assert evaluated.headline.metric == "recall@7"
    assert [(one.name, one.entered, one.survived) for one in diagnosed.stages] == [
        (one.name, one.entered, one.survived) for one in evaluated.losses.stages
    ]
    assert diagnosed.recall.mean == pytest.approx(evaluated.headline.value.mean)
