import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.evaluate.protocol import rules, seen_rule
from shortlist.grammar import as_pipeline
from shortlist.models.counts.popular_window import PopularWindow
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline.guards import Optional
from shortlist.stages import Seen

COUNTS = torch.tensor([3, 2, 1])


def popular():
    return Popular(torch.arange(3), COUNTS.float(), name="popular")


def model(fresh):
    return ModelNominator(PopularWindow.of(COUNTS, COUNTS), fresh=fresh, name=f"model_{fresh}")


@pytest.mark.parametrize("protocol", ["half-history", "global-time", "leave-last-out"])
def test_every_protocol_says_its_rule_and_its_settings(world, protocol):
    split = world.split(protocol=protocol)
    told = rules(split.settings, "test", len(split.test))
    assert told["protocol"].startswith(f"{protocol}: ")
    assert all(key in told["settings"] for key in split.settings if key != "protocol")
    assert told["asked"] == f"{len(split.test):,} users, the test part"
    assert {"ties", "duplicates", "catalogue", "yardsticks"} <= set(told)


def test_a_protocol_of_ones_own_is_told_by_its_name():
    told = rules({"protocol": "mine"}, "valid", 3)
    assert told["protocol"] == "mine: a protocol of its own"
    assert told["settings"] == "none"


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        (popular() >> Seen() % 2, "left out"),
        (Optional(popular()) >> Seen() % 2, "left out"),
        (popular() >> Seen(last=5) % 2, "the last 5 are left out, older ones can come back"),
        (model(True) % 2, "left out"),
        (model(True) + popular() >> Seen(last=5), "those older than the last 5 can come back from popular"),
        (model(True) + popular(), "can come back from popular"),
        ((popular() >> Seen()) + model(False), "can come back from model_False"),
        ((popular() >> Seen()) + model(True), "left out"),
        ((popular() >> Seen()) + Optional(model(False) >> Seen() % 2, name="other"), "left out"),
        ((popular() >> Seen()) + model(False) >> Seen(name="again"), "left out"),
        ((popular() >> Seen(last=5)) + model(True), "those older than the last 5 can come back from popular"),
        (
            (popular() >> Seen(last=5)) + model(False),
            "can come back from model_False and those older than the last 5 can come back from popular",
        ),
        (Optional(popular() >> Seen()) % 2 + model(False) % 2, "can come back from model_False"),
        (model(False) % 2, "can come back"),
    ],
)
def test_what_happens_to_seen_items_is_told_from_the_stages(pipeline, expected):
    assert seen_rule(as_pipeline(pipeline)) == expected


def test_equal_scores_are_ordered_as_the_rules_say(world):
    split = world.split()
    told = rules(split.settings, "test", len(split.test))["ties"]
    assert "by item row; in a pipeline equal scores keep the order of the nominators" in told
    late = Popular(torch.tensor([2]), torch.ones(1), name="late")
    early = Popular(torch.tensor([1]), torch.ones(1), name="early")
    query = Query.of([[]])
    for pool, expected in ((late + early, [2, 1]), (early + late, [1, 2])):
        found = as_pipeline(pool >> Seen() % 2)(query, Candidates.none(1))
        assert found.items.tolist() == [expected]
        assert len(found.scores.unique()) == 1
