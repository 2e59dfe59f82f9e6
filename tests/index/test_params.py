import pytest

from shortlist.errors import ConfigError
from shortlist.index.params import (
    Choices,
    HnswChoices,
    IvfChoices,
    IvfPqChoices,
    ResidualChoices,
    ScannChoices,
)


def test_what_is_not_said_fits_the_catalogue():
    assert IvfChoices().fitted(10_000, 64) == IvfChoices(200, 25)
    assert IvfChoices().fitted(300, 64) == IvfChoices(7, 1)
    assert IvfChoices().fitted(1, 64) == IvfChoices(1, 1)
    assert IvfPqChoices().fitted(10_000, 64).m == 32
    assert IvfPqChoices().fitted(10_000, 7).m == 1
    assert ScannChoices().fitted(300, 64).nlist == 3
    assert Choices().fitted(3, 4) == Choices()


def test_what_is_said_stays():
    assert IvfPqChoices(nlist=9, nprobe=50, m=8).fitted(100, 16) == IvfPqChoices(nlist=9, nprobe=9, m=8)


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (HnswChoices, {"ef": 0}, "ef_construction and ef from 1, got 32, 100 and 0"),
        (HnswChoices, {"m": -2}, "m must be a whole number from 0, got -2"),
        (HnswChoices, {"m": 2.5}, "m must be a whole number from 0, got 2.5"),
        (IvfPqChoices, {"bits": 9}, "bits must lie between 1 and 8, got 9"),
        (ResidualChoices, {"m": 0}, "needs m from 1 and bits between 1 and 8, got 0 and 6"),
        (ScannChoices, {"refine": 0}, "needs refine from 1, got 0"),
        (IvfChoices, {"ef": 3}, 'index "some" knows no ef; expected nlist, nprobe'),
        (Choices, {"ef": 3}, "expected no settings"),
    ],
)
def test_a_choice_that_makes_no_sense_is_named(kind, settings, words):
    with pytest.raises(ConfigError, match=words):
        kind.of("some", settings)


def test_a_choice_that_does_not_fit_the_catalogue_is_named():
    with pytest.raises(
        ConfigError, match="nlist must be at most the number of items, 300, got 400; say less"
    ):
        IvfChoices(nlist=400).fitted(300, 8)
    with pytest.raises(ConfigError, match="m must divide the width 10, got 4; say 0"):
        IvfPqChoices(m=4).fitted(300, 10)
