import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.evaluate.protocol.rules import protocol_of, seen_rule
from shortlist.grammar import as_pipeline
from shortlist.models.counts.last_click import LastClick, LastClickConfig
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline.guards import Optional
from shortlist.stages import Seen

COUNTS = torch.tensor([3, 2, 1])


def popular():
    return Popular(torch.arange(3), COUNTS.float(), name="popular")


def model(exclude_seen):
    return ModelNominator(
        LastClick(LastClickConfig(3)), exclude_seen=exclude_seen, name=f"model_{exclude_seen}"
    )


PIPELINE = {"a": as_pipeline(popular() >> Seen() % 2)}


@pytest.mark.parametrize("protocol", ["half-history", "global-time", "leave-last-out"])
def test_protocol_has_the_rule_and_the_settings_of_the_split(world, protocol):
    split = world.split(protocol=protocol)
    rows = protocol_of(split.settings, "test", len(split.test), PIPELINE).rows()
    assert rows["protocol"].startswith(f"{protocol}: ")
    assert all(key in rows["settings"] for key in split.settings if key != "protocol")
    assert rows["users"] == f"{len(split.test):,} users of the test part"
    assert {"ties", "duplicates", "catalogue", "baselines", "seen items"} <= set(rows)


def test_custom_protocol_is_shown_by_its_name():
    rows = protocol_of({"protocol": "mine"}, "valid", 3, PIPELINE).rows()
    assert rows["protocol"] == "mine: a custom protocol"
    assert rows["settings"] == "none"


def test_rules_for_seen_items_are_listed_by_system_where_they_differ():
    both = {**PIPELINE, "b": as_pipeline(popular() % 2)}
    assert protocol_of({}, "test", 3, both).seen_items == "a: left out; b: can be returned"
    assert protocol_of({}, "test", 3, {**PIPELINE, "b": PIPELINE["a"]}).seen_items == "left out"


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (popular() >> Seen() % 2, "left out"),
        (Optional(popular()) >> Seen() % 2, "left out"),
        (popular() >> Seen(last=5) % 2, "the last 5 are left out, older ones can be returned"),
        (model(True) % 2, "left out"),
        (model(True) + popular() >> Seen(last=5), "those older than the last 5 can be returned from popular"),
        (model(True) + popular(), "can be returned from popular"),
        ((popular() >> Seen()) + model(False), "can be returned from model_False"),
        ((popular() >> Seen()) + model(True), "left out"),
        ((popular() >> Seen()) + Optional(model(False) >> Seen() % 2, name="other"), "left out"),
        ((popular() >> Seen()) + model(False) >> Seen(name="again"), "left out"),
        (
            (popular() >> Seen(last=5)) + model(True),
            "those older than the last 5 can be returned from popular",
        ),
        (
            (popular() >> Seen(last=5)) + model(False),
            "can be returned from model_False and those older than the last 5 can be returned from popular",
        ),
        (Optional(popular() >> Seen()) % 2 + model(False) % 2, "can be returned from model_False"),
        (model(False) % 2, "can be returned"),
    ],
)
def test_rule_for_seen_items_follows_from_the_stages(pipeline, expected):
    assert seen_rule(as_pipeline(pipeline)) == expected


def test_equal_scores_are_ordered_as_the_protocol_says(world):
    split = world.split()
    ties = protocol_of(split.settings, "test", len(split.test), PIPELINE).ties
    assert "by item row; in a pipeline equal scores keep the order of the nominators" in ties
    late = Popular(torch.tensor([2]), torch.ones(1), name="late")
    early = Popular(torch.tensor([1]), torch.ones(1), name="early")
    query = Query.of([[]])
    for pool, expected in ((late + early, [2, 1]), (early + late, [1, 2])):
        found = as_pipeline(pool >> Seen() % 2)(query, Candidates.none(1))
        assert found.items.tolist() == [expected]
        assert len(found.scores.unique()) == 1
