import math

import pytest

from shortlist.pipeline.recommender import Request
from shortlist.serve import Limits
from shortlist.serve.answer import explain_item, plain, recommend, understand
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import Visit
from shortlist.serve.schemas import Ask, ExplainAsk
from shortlist.serve.service import Service

from .tiny import recommender_of

VISIT = Visit("r1", 0.0)


@pytest.fixture
def service():
    return Service(recommender_of(), Limits(), seed=5)


def counted(service, name):
    return service.metrics.registry.get_sample_value(f"shortlist_{name}_total")


def test_what_is_unknown_is_left_out_and_counted(service):
    ask = Ask(user_id="nobody", history=["i1", "zz", "i2", "zz"], exclude=["i5", "yy"], k=3, seed=9)
    understood = understand(service, ask)
    assert understood.request == Request(None, ["i1", "i2"], 3, ["i5"], 9)
    assert (understood.known_user, understood.ignored) == (False, 2)
    assert (counted(service, "unknown_users"), counted(service, "unknown_items")) == (1.0, 2.0)


def test_a_stranger_is_not_counted_as_an_unknown_user(service):
    assert understand(service, Ask()).request == Request(None, None, None, [], 5)
    assert counted(service, "unknown_users") == 0.0


def test_a_seed_of_zero_is_a_seed(service):
    assert understand(service, Ask(seed=0)).request.seed == 0


def test_a_history_without_anything_known_is_empty_and_not_left_out(service):
    assert understand(service, Ask(user_id="u3", history=[])).request.history == []
    assert understand(service, Ask(user_id="u3", history=["zz"])).request.history == []
    assert understand(service, Ask(user_id="u3")).request.history is None


def test_the_stages_are_set_only_when_asked_for(service):
    assert "stages" not in recommend(service, Ask(), VISIT).model_fields_set
    assert [one.name for one in recommend(service, Ask(trace=True), VISIT).stages] == [
        "pool",
        "seen",
        "rank",
        "diverse",
    ]


def test_an_explanation_stands_where_the_slate_has_the_item(service):
    third = recommend(service, Ask(user_id="u3"), VISIT).items[2]
    told = explain_item(service, ExplainAsk(user_id="u3", item_id=third.item_id), VISIT)
    assert (told.request_id, told.verdict, told.position, told.title) == ("r1", "returned", 3, third.title)
    assert told.sentence == f"{third.title} was returned at position 3."


def test_an_unknown_item_is_refused_before_anything_is_counted(service):
    with pytest.raises(RefusedError, match=r"^the item is not in the catalogue of this model$") as caught:
        explain_item(service, ExplainAsk(user_id="nobody", item_id="zz"), VISIT)
    assert caught.value.code == "unknown-item"
    assert counted(service, "unknown_users") == 0.0


def test_only_numbers_json_cannot_say_become_none():
    told = plain({"a": math.nan, "b": (math.inf, -math.inf, 1.5), "c": [{"d": 0}], "e": "nan", "f": True})
    assert told == {"a": None, "b": [None, None, 1.5], "c": [{"d": 0}], "e": "nan", "f": True}
