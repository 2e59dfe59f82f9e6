"""The table of types: every stage of ours has a name in it, and its settings can be told."""

import pytest

from shortlist import nominate, stages
from shortlist.grammar import Stage
from shortlist.pipeline.registry import TYPES, type_name
from shortlist.pipeline.settings import plain_fields
from tests.worlds import Dice, tiny


def test_every_stage_that_is_public_has_a_type():
    public = [getattr(room, name) for room in (nominate, stages) for name in room.__all__]
    assert {kind for kind in public if issubclass(kind, Stage)} == set(TYPES.values())


def test_a_stage_knows_its_type_and_a_stranger_has_none():
    assert [type_name(stage, TYPES) for stage in tiny().stages[1:3]] == ["seen", "available"]
    assert type_name(Dice(), TYPES) is None

    class Mine(TYPES["seen"]):
        pass

    assert type_name(Mine(), TYPES) is None, (
        "a child is not its parent: it may not come back from its settings"
    )


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_called_in_plain_words_and_takes_plain_settings(name):
    assert name == name.lower()
    assert "name" in plain_fields(TYPES[name])
