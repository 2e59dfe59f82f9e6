from dataclasses import fields

import pytest

from shortlist.data import half_history
from shortlist.errors import ConfigError
from shortlist.metrics import ranking as metrics
from shortlist.models.nodes import config
from shortlist.train.tree.plan import CHOICES, METHODS, POSITIVE, PROFILES, TreePlan, plan_of

PLANS = {name: plan_of("dtr-t-rl", name) for name in PROFILES}

# Where the paper and its published code differ: the switches of each difference, what the paper has, what the code has.
DIFFERENCES = {
    "D1": {"rectify": ("strict", "one_step")},
    "D2": {"correction": ("exact", "released")},
    "D3": {"start": ("root", "exact")},
    "D4": {"history": ("item", "ancestor"), "leaf_vectors": ("item", "slot")},
    "D5": {"output": ("linear", "bn_prelu"), "norm": ("none", "batch")},
    "D6": {"priority": ("count", "score"), "sticky": (0.0, 1.0)},
    "D7": {"reduction": ("sum", "mean")},
    "D8": {"instances": ("last", "every")},
    "D11": {"order": ("category", "category-sorted")},
    "D12": {"rounds": (13, 12)},
    "D13": {"sasrec_width": (24, 128)},
    "D14": {
        "warmup": (0, 5000),
        "restart": (False, True),
        "amsgrad": (False, True),
        "weight_decay": (0.0, 1e-2),
        "dropout": (0.0, 0.1),
    },
}
# Differences that are no matter of training, with what reproduces them.
ELSEWHERE = {
    "D8, first halves of held-out users": (half_history, "first_halves"),
    "D9, held-out users with few events": (half_history, "min_length"),
    "D10, recall of sets, or of lists": (metrics.list_recall, "events"),
}
# Both have the same, but each can be had otherwise.
ALIKE = {"D15": ("layers", (128, 64, 24)), "D16": ("branch", 2)}


@pytest.mark.parametrize("number", DIFFERENCES)
def test_every_difference_between_paper_and_code_is_a_switch(number):
    for name, (paper, released) in DIFFERENCES[number].items():
        assert getattr(PLANS["paper"], name) == paper, name
        assert getattr(PLANS["released"], name) == released, name
        assert paper != released


def test_d12_rounds_stand_for_updates_between_them():
    assert (PLANS["paper"].rounds - 1, PLANS["released"].rounds - 1) == (12, 11)


def test_d14_the_released_code_takes_80_000_steps_a_round():
    assert PLANS["released"].steps == 80_000


@pytest.mark.parametrize("number", ALIKE)
def test_differences_of_a_study_are_switches_that_both_leave_alone(number):
    name, value = ALIKE[number]
    assert getattr(PLANS["paper"], name) == getattr(PLANS["released"], name) == value


@pytest.mark.parametrize(("kind", "name"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_differences_of_data_and_evaluation_live_there(kind, name):
    assert name in kind.__annotations__


def test_no_difference_of_the_list_is_forgotten():
    named = {*DIFFERENCES, *ALIKE, *(one.partition(",")[0] for one in ELSEWHERE)}
    assert named == {f"D{number}" for number in range(1, 17)}


def test_a_profile_changes_nothing_else_than_its_list_says():
    for name, given in PROFILES.items():
        changed = {one.name for one in fields(TreePlan) if getattr(PLANS[name], one.name) != one.default}
        assert changed - {"labels"} <= set(given)


def test_methods_are_those_of_the_family():
    told = {name: (plan.loss, plan.sampler, plan.labels, plan.update) for name, plan in all_methods().items()}
    assert told == {
        "dtr-u": ("softmax", "uniform", "plain", "dtr"),
        "dtr-t": ("softmax", "tree", "plain", "dtr"),
        "dtr-t-rl": ("softmax", "tree", "rectified", "dtr"),
        "jtm": ("binary", "uniform", "plain", "jtm"),
        "tdm": ("binary", "uniform", "plain", "tdm"),
        "otm": ("binary", "beam", "model", "none"),
        "plt": ("binary", "siblings", "plain", "none"),
        "din": ("softmax", "uniform", "plain", "none"),
    }
    assert [name for name, plan in all_methods().items() if plan.product] == ["plt"]
    assert [name for name, plan in all_methods().items() if plan.branch == 0] == ["din"]


def all_methods():
    return {name: plan_of(name) for name in METHODS}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_goes_with_every_profile(method, profile):
    plan = plan_of(method, profile)
    assert plan.total == plan.rounds * plan.steps


def test_what_is_given_outranks_the_method_and_the_method_its_profile():
    assert plan_of("tdm", "paper").rounds == METHODS["tdm"]["rounds"] != PROFILES["paper"]["rounds"]
    assert plan_of("tdm", "paper", rounds=2).rounds == 2


@pytest.mark.parametrize("name", CHOICES)
def test_a_word_that_does_not_exist_is_refused_with_the_choices(name):
    with pytest.raises(
        ConfigError, match=f"{name} must be one of {', '.join(CHOICES[name])}, got 'nonsense'"
    ):
        plan_of(**{name: "nonsense"})


@pytest.mark.parametrize("name", POSITIVE)
def test_numbers_that_nothing_can_be_counted_with_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must be 1 or more, got 0"):
        plan_of(**{name: 0})


@pytest.mark.parametrize("name", ["layers", "windows"])
@pytest.mark.parametrize("sizes", [(), (4, 0)])
def test_no_sizes_and_sizes_of_nothing_are_refused(name, sizes):
    with pytest.raises(ConfigError, match=f"{name} must be one whole number or more"):
        plan_of(**{name: sizes})


def test_methods_profiles_and_switches_nobody_knows_are_refused():
    with pytest.raises(ConfigError, match=r"method must be one of dtr-u, dtr-t,.* got 'dtr'"):
        plan_of("dtr")
    with pytest.raises(ConfigError, match="profile must be one of sound, paper, released, got 'fast'"):
        plan_of("dtr-t", "fast")
    with pytest.raises(ConfigError, match="unknown speed; expected one of ahead, alpha,"):
        plan_of(speed=3)


@pytest.mark.parametrize("branch", [1, -2])
def test_trees_that_never_part_are_refused(branch):
    with pytest.raises(ConfigError, match="branch must be 2 or more, or 0"):
        plan_of(branch=branch)


def test_every_default_is_among_its_choices_and_a_scorer_knows_the_words():
    for name, choices in CHOICES.items():
        assert getattr(TreePlan(), name) in choices
    words = {"kind": "scorer", **{name: name for name in ("history", "pool", "norm", "output")}}
    for theirs, ours in words.items():
        assert set(config.CHOICES[theirs]) == set(CHOICES[ours])
