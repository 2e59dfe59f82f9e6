"""Settings: the parameters of a dataclass, and whether values fit their types and ranges."""

from dataclasses import MISSING, dataclass, field

import pytest
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.settings import RENAMED, check_fields, check_settings, setting, settings_of


@dataclass
class Thing:
    word: str
    count: int
    share: float
    on: bool
    names: tuple[str, ...]
    sizes: list[int]
    either: str | int
    maybe: float | None
    weights: Tensor
    spare: Tensor | None
    made: int = field(init=False, default=0)


@dataclass(frozen=True)
class Ranged:
    rate: float = setting(0.5, "A share.", least=0, most=1)
    width: int = setting(8, "A width.", least=1)
    depth: int = setting(2, "A depth.", most=4)
    loss: str = setting("bce", "A loss.", choices=("bce", "softmax"))
    n_items: int = setting(0, "Number of items.", least=0, derived=True)
    device: str | None = None


@dataclass(frozen=True)
class Wide(Ranged):
    width: int = 64


PLAIN = settings_of(Thing)


def test_settings_are_the_fields_that_toml_can_hold():
    names = [one.name for one in PLAIN]
    assert names == ["word", "count", "share", "on", "names", "sizes", "either", "maybe"]
    assert all(one.default is MISSING and one.required for one in PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        {
            "word": "a",
            "count": 1,
            "share": 1,
            "on": True,
            "names": ["a"],
            "sizes": [],
            "either": 3,
            "maybe": 2,
        },
        {"share": 0.5, "either": "x", "maybe": 0.1, "names": ("a", "b")},
        {},
    ],
)
def test_values_of_the_right_type_fit(values):
    check_settings(values, PLAIN, "here")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("word", 1, "text"),
        ("count", 1.0, "a whole number"),
        ("count", True, "a whole number"),
        ("share", "1", "a number"),
        ("share", False, "a number"),
        ("on", 1, "true or false"),
        ("names", "a", "a list of text"),
        ("names", ["a", 1], "a list of text"),
        ("sizes", [1.5], "a list of a whole number"),
        ("either", 1.5, "text or a whole number"),
        ("either", True, "text or a whole number"),
        ("maybe", "x", "a number"),
    ],
)
def test_value_of_another_type_is_refused_with_the_key_and_the_expected_type(name, value, expected):
    with pytest.raises(ConfigError, match=f"^here: {name} must be {expected}, got "):
        check_settings({name: value}, PLAIN, "here")


def test_unknown_key_is_refused_with_the_known_keys():
    two = [one for one in PLAIN if one.name in ("word", "count")]
    with pytest.raises(ConfigError, match=r"^here: unknown key 'x'; expected one of count, word$"):
        check_settings({"x": 1}, two, "here")
    with pytest.raises(ConfigError, match="expected one of none"):
        check_settings({"x": 1}, [], "here")


@pytest.mark.parametrize("old", RENAMED)
def test_renamed_key_is_refused_with_its_new_name(old):
    with pytest.raises(ConfigError) as refused:
        check_settings({old: 1}, [], "here")
    assert f"{old} was renamed to {RENAMED[old]} in 0.2.0" in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": 1.5}, "here: rate must lie between 0 and 1, got 1.5"),
        ({"rate": float("nan")}, "here: rate must lie between 0 and 1, got nan"),
        ({"width": 0}, "here: width must be at least 1, got 0"),
        ({"depth": 5}, "here: depth must be at most 4, got 5"),
        ({"loss": "mse"}, "here: loss must be one of bce, softmax, got 'mse'"),
        ({"n_items": -1}, "here: n_items must be at least 0, got -1"),
    ],
)
def test_field_outside_its_range_is_refused(changes, message):
    with pytest.raises(ConfigError, match=f"^{message}$"):
        check_fields(Ranged(**changes), "here")


def test_fields_inside_their_ranges_and_missing_values_pass():
    check_fields(Ranged(rate=1, width=1, depth=-4, loss="softmax", n_items=3), "here")


def test_subclass_that_changes_a_default_keeps_meaning_and_range():
    (width,) = [one for one in settings_of(Wide) if one.name == "width"]
    assert (width.default, width.meaning, width.least) == (64, "A width.", 1)


def test_derived_field_is_no_setting():
    assert [one.name for one in settings_of(Ranged)] == ["rate", "width", "depth", "loss", "device"]
