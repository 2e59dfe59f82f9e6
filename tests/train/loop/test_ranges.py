from dataclasses import fields

import pytest

from shortlist.errors import ConfigError
from shortlist.train import TRAINERS
from shortlist.train.loop.ranges import RANGES, check_ranges
from shortlist.train.tree.plan import CHOICES

FREE = {
    "allow",
    "deny",
    "by",
    "start",
    "method",
    "profile",
    "device",
    "guard",
    "improve",
    "early_stop_metric",
    "own",
    "mode",
    "correct",
    "calibrate",
    "inputs",
    *CHOICES,
}  # words, not numbers


def test_every_number_of_every_trainer_has_a_range_that_holds_its_default():
    for kind in TRAINERS.values():
        for one in fields(kind):
            assert one.name in RANGES or one.name in FREE, (kind, one.name)
        check_ranges(vars(kind()))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", -1),
        ("width", 0),
        ("dropout", 1.0),
        ("learning_rate", 0.0),
        ("hidden", (64, -1)),
        ("days", -1.0),
        ("steps", 0),
        ("layers", (64, 0)),
        ("mix", 1.0),
    ],
)
def test_a_number_out_of_range_is_named(name, value):
    with pytest.raises(ConfigError, match=f"{name} must lie between"):
        check_ranges({name: value})


def test_words_and_what_is_left_open_are_not_numbers():
    check_ranges({"instances": "every", "steps": None})


def test_not_a_number_is_out_of_range():
    with pytest.raises(ConfigError, match="learning_rate must lie"):
        check_ranges({"learning_rate": float("nan")})
