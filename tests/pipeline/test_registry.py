"""The table of types: every public stage has a type name and declared settings."""

import pytest

from shortlist import nominate, stages
from shortlist.grammar import Stage
from shortlist.pipeline.registry import TYPES, type_name
from tests.worlds import RandomScorer, tiny


def test_every_public_stage_has_a_type():
    public = [getattr(room, name) for room in (nominate, stages) for name in room.__all__]
    assert {kind for kind in public if issubclass(kind, Stage)} == set(TYPES.values())


def test_stage_has_the_name_of_its_type_and_an_unknown_class_has_none():
    assert [type_name(stage, TYPES) for stage in tiny().stages[1:3]] == ["seen", "available"]
    assert type_name(RandomScorer(), TYPES) is None

    class Mine(TYPES["seen"]):
        pass

    assert type_name(Mine(), TYPES) is None, (
        "a subclass is not its parent: it may not be rebuilt from the same settings"
    )


@pytest.mark.parametrize("name", TYPES)
def test_every_setting_of_a_type_has_a_meaning(name):
    assert name == name.lower()
    assert [one.name for one in TYPES[name].declared() if not one.meaning] == []
