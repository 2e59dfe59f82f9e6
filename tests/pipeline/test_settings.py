"""Settings: what a dataclass takes, and whether a value fits it."""

from dataclasses import dataclass, field

import pytest
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.pipeline.settings import check_settings, plain_fields


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


PLAIN = plain_fields(Thing)


def test_a_setting_is_a_field_that_toml_can_say():
    assert list(PLAIN) == ["word", "count", "share", "on", "names", "sizes", "either", "maybe"]


@pytest.mark.parametrize(
    "said",
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
def test_values_of_the_right_type_fit(said):
    check_settings(said, PLAIN, "here")


@pytest.mark.parametrize(
    ("name", "value", "spoken"),
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
def test_a_value_of_another_type_is_refused_with_the_key_and_what_it_must_be(name, value, spoken):
    with pytest.raises(ConfigError, match=f"^here: {name} must be {spoken}, got "):
        check_settings({name: value}, PLAIN, "here")


def test_an_unknown_key_is_refused_with_those_that_are_known():
    with pytest.raises(ConfigError, match=r"^here: unknown key 'x'; expected one of count, word$"):
        check_settings({"x": 1}, {"word": str, "count": int}, "here")
    with pytest.raises(ConfigError, match="expected one of none"):
        check_settings({"x": 1}, {}, "here")
