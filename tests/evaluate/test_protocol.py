import pytest
import torch

from shortlist.evaluate.protocol import rules, seen_rule
from shortlist.grammar import as_pipeline
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline.guards import Optional
from shortlist.represent.popular_window import PopularWindow
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
        (model(True) + popular() >> Seen(last=5), "the last 5 are left out, older ones can come back"),
        (model(True) + popular(), "left out by some nominators"),
        (model(False) % 2, "can come back"),
    ],
)
def test_what_happens_to_seen_items_is_told_from_the_stages(pipeline, expected):
    assert seen_rule(as_pipeline(pipeline)) == expected
