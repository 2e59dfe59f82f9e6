import numpy as np
import pytest
import torch

from shortlist.evaluate.compare import compare
from shortlist.evaluate.scores import Scores
from shortlist.evaluate.warnings import doubts

DONE = {"epochs": 5, "most": 10, "best": 3, "judged": [], "converged": True}
UNKNOWN = {**DONE, "best": None, "converged": None}


def of(values) -> Scores:
    return Scores({"recall@20": torch.tensor(values, dtype=torch.float64)}, {})


LOW, HIGH = of([0.1, 0.2, 0.1, 0.2] * 5), of([0.5, 0.6, 0.7, 0.6] * 5)
MIXED = of([0.9, 0.2, 0.7, 0.6] * 5)


def about(**changes):
    return {
        "training": {"towers": DONE, "rank": UNKNOWN},
        "seed": 0,
        "package": "1.0",
        "version": "aa",
    } | changes


def contest(systems, popularity=LOW):
    return compare(systems, {"popularity": popularity}, samples=300)


def test_a_sound_comparison_leaves_no_doubt():
    told = doubts(
        contest({"a": HIGH, "b": of([0.7, 0.8, 0.9, 0.8] * 5)}), {"a": about(), "b": about(version="bb")}
    )
    assert told == []


def test_a_training_that_ended_too_early_is_told_with_its_stage():
    short = about(training={"towers": {**DONE, "best": 10, "converged": False}})
    (told,) = doubts(contest({"a": HIGH}), {"a": short})
    assert "a: its stage 'towers' did not converge" in told
    assert "best at 10 of 10" in told


@pytest.mark.parametrize(
    ("scores", "word"), [(of([0.0, 0.1, 0.05, 0.1] * 5), "is below"), (LOW, "is not clearly above")]
)
def test_a_system_that_does_not_beat_popularity_is_told(scores, word):
    told = doubts(contest({"a": scores}), {"a": about()})
    assert any(f"a: {word} popularity by recall@20" in one for one in told)


def test_too_few_users_are_told_with_how_many_it_would_take():
    told = doubts(contest({"a": HIGH, "b": MIXED}), {"a": about(), "b": about(version="bb")})
    (few,) = [one for one in told if "too few users" in one]
    assert "b and a: " in few
    assert "it would take about" in few


def test_a_difference_that_only_looks_sure_among_many_is_told_with_its_corrected_p():
    rng = np.random.default_rng(2)
    made = [of(rng.integers(0, 2, 200).astype(float)) for _ in range(7)]
    found = compare(dict(zip("abcdef", made, strict=False)), {"popularity": made[6]})
    told = doubts(found, {name: about(version=name) for name in "abcdef"})
    (few,) = [one for one in told if one.startswith("c and popularity: too few users")]
    assert ", p by Holm 0.099; it would take about " in few
    assert int(few.split()[-2]) > 200


def test_no_difference_at_all_is_no_lack_of_users():
    told = doubts(contest({"a": HIGH, "b": HIGH}), {"a": about(), "b": about(version="bb")})
    assert told == []


def test_twins_other_seeds_and_other_packages_are_told():
    told = doubts(
        contest({"a": HIGH, "b": HIGH, "c": HIGH}),
        {"a": about(), "b": about(), "c": about(version="cc", seed=1, package="2.0")},
    )
    assert told == [
        "a, b: are the same model (aa)",
        "the systems were trained with different seeds: a 0, b 0, c 1",
        "the systems were trained by different versions of the package: a 1.0, b 1.0, c 2.0",
    ]


def test_a_bundle_that_says_nothing_of_its_training_is_not_doubted():
    bare = {name: value for name, value in about().items() if name != "training"}
    assert doubts(contest({"a": HIGH}), {"a": bare}) == []
