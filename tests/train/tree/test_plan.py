from dataclasses import fields, replace

import pytest

from shortlist.data import half_history
from shortlist.errors import ConfigError
from shortlist.metrics import ranking as metrics
from shortlist.models.nodes import ScorerSettings, ScorerSizes
from shortlist.models.sequence.din import DINConfig
from shortlist.settings import settings_of
from shortlist.train.tree.plan import METHODS, PROFILES, SETTINGS, TreePlan, plan_of

CHOICES = {one.name: one.choices for one in SETTINGS if one.choices}
RANGES = {one.name: (one.least, one.most) for one in SETTINGS if one.least is not None}
PLANS = {name: plan_of("dtr-t-rl", name) for name in PROFILES}

# Differences between the paper and its published code: the settings with the value of the paper and of the code.
DIFFERENCES = {
    "D1": {"rectify": ("strict", "one_step")},
    "D2": {"correction": ("exact", "released")},
    "D3": {"start": ("root", "exact")},
    "D4": {"history": ("item", "ancestor"), "leaf_vectors": ("item", "slot")},
    "D5": {"output": ("linear", "bn_prelu"), "norm": ("none", "batch")},
    "D6": {"priority": ("count", "score"), "stay_bonus": (0.0, 1.0)},
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
# Differences outside of training, with the function that reproduces them.
ELSEWHERE = {
    "D8, first halves of held-out users": (half_history, "first_halves"),
    "D9, held-out users with few events": (half_history, "min_length"),
    "D10, recall of sets, or of lists": (metrics.list_recall, "events"),
}
# Same in both, but a setting.
SAME_IN_BOTH = {"D15": ("layers", (128, 64, 24)), "D16": ("branch", 2)}


@pytest.mark.parametrize("number", DIFFERENCES)
def test_every_difference_between_paper_and_code_is_a_setting(number):
    for name, (paper, released) in DIFFERENCES[number].items():
        assert getattr(PLANS["paper"], name) == paper, name
        assert getattr(PLANS["released"], name) == released, name
        assert paper != released


def test_d12_updates_are_between_rounds():
    assert (PLANS["paper"].rounds - 1, PLANS["released"].rounds - 1) == (12, 11)


def test_d14_released_code_has_80_000_steps_per_round():
    assert PLANS["released"].steps == 80_000


@pytest.mark.parametrize("number", SAME_IN_BOTH)
def test_studied_sizes_are_settings_with_the_same_default_in_both_profiles(number):
    name, value = SAME_IN_BOTH[number]
    assert getattr(PLANS["paper"], name) == getattr(PLANS["released"], name) == value


@pytest.mark.parametrize(("kind", "name"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_differences_of_data_and_evaluation_are_arguments_there(kind, name):
    assert name in kind.__annotations__


def test_every_difference_of_the_list_is_tested():
    tested = {*DIFFERENCES, *SAME_IN_BOTH, *(one.partition(",")[0] for one in ELSEWHERE)}
    assert tested == {f"D{number}" for number in range(1, 17)}


def test_a_profile_changes_only_the_settings_it_lists():
    for name, given in PROFILES.items():
        changed = {one.name for one in fields(TreePlan) if getattr(PLANS[name], one.name) != one.default}
        assert changed - {"labels"} <= set(given)


def test_methods_set_loss_sampler_labels_and_update():
    found = {
        name: (plan.loss, plan.sampler, plan.labels, plan.update) for name, plan in all_methods().items()
    }
    assert found == {
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
def test_every_method_can_be_combined_with_every_profile(method, profile):
    plan = plan_of(method, profile)
    assert plan.total == plan.rounds * plan.steps


def test_overrides_outrank_the_method_and_the_method_outranks_the_profile():
    assert plan_of("tdm", "paper").rounds == METHODS["tdm"]["rounds"] != PROFILES["paper"]["rounds"]
    assert plan_of("tdm", "paper", rounds=2).rounds == 2


@pytest.mark.parametrize("name", CHOICES)
def test_an_unknown_value_is_refused_with_the_choices(name):
    with pytest.raises(
        ConfigError, match=f"{name} must be one of {', '.join(CHOICES[name])}, got 'nonsense'"
    ):
        plan_of(**{name: "nonsense"})


@pytest.mark.parametrize("name", RANGES)
def test_a_number_outside_its_range_is_refused(name):
    for value in (RANGES[name][0] - 1, RANGES[name][1] * 2):
        number = type(TreePlan.__dataclass_fields__[name].default)(
            (value,) if name in ("layers", "windows") else value
        )
        with pytest.raises(ConfigError, match=f"{name} must lie"):
            plan_of(**{name: number})


@pytest.mark.parametrize("name", ["layers", "windows"])
@pytest.mark.parametrize("sizes", [(), (4, 0)])
def test_no_sizes_and_sizes_of_zero_are_refused(name, sizes):
    with pytest.raises(ConfigError, match=f"{name} must"):
        plan_of(**{name: sizes})


@pytest.mark.parametrize("name", ["batch_size", "beam", "eval_every", "negatives", "rounds", "steps"])
def test_counts_of_zero_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} must lie .*, got 0"):
        plan_of(**{name: 0})


def test_every_setting_has_a_meaning_and_fits_its_own_range():
    for one in SETTINGS:
        assert one.meaning, one.name
        one.check(one.default, "test")
        numeric = isinstance(one.default, int | float) and not isinstance(one.default, bool)
        assert not numeric or (one.least is not None and one.most is not None), one.name


def test_unknown_methods_profiles_and_settings_are_refused():
    with pytest.raises(ConfigError, match=r"method must be one of dtr-u, dtr-t,.* got 'dtr'"):
        plan_of("dtr")
    with pytest.raises(ConfigError, match="profile must be one of sound, paper, released, got 'fast'"):
        plan_of("dtr-t", "fast")
    with pytest.raises(ConfigError, match="unknown key 'speed'; expected one of ahead, alpha,"):
        plan_of(speed=3)


@pytest.mark.parametrize("branch", [1, -2])
def test_a_branch_of_one_or_less_is_refused(branch):
    with pytest.raises(ConfigError, match="branch must"):
        plan_of(branch=branch)


def test_scorer_settings_have_one_declaration():
    shared = {one.name: one for one in settings_of(ScorerSettings)}
    inherited = {one.name: one for one in SETTINGS if one.name in shared}
    assert {**inherited, "spread": replace(inherited["spread"], default=0.1)} == shared
    assert {one.name for one in settings_of(ScorerSizes)} <= {one.name for one in settings_of(DINConfig)}
