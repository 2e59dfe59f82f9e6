"""Responses are computed from validated requests."""

import pytest

from shortlist.pipeline.recommender import Request
from shortlist.serve import Limits
from shortlist.serve.answer import explain_item, recommend, resolve
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import RequestContext
from shortlist.serve.schemas import ExplainRequest, RecommendRequest
from shortlist.serve.service import Service

from .small_service import recommender_of

CONTEXT = RequestContext("r1", 0.0)


@pytest.fixture
def service():
    return Service(recommender_of(), Limits(), seed=5)


def counted(service, name):
    return service.metrics.registry.get_sample_value(f"shortlist_{name}_total")


def test_unknown_items_are_dropped_and_unknown_ids_are_counted(service):
    body = RecommendRequest(
        user_id="nobody", history=["i1", "zz", "i2", "zz"], exclude=["i5", "yy"], k=3, seed=9
    )
    resolved = resolve(service, body)
    assert resolved.request == Request("nobody", ["i1", "i2"], 3, ["i5"], 9)
    assert (resolved.known_user, resolved.ignored) == (False, 2)
    assert (counted(service, "unknown_users"), counted(service, "unknown_items")) == (1.0, 2.0)


def test_request_without_a_user_is_not_counted_as_an_unknown_user(service):
    assert resolve(service, RecommendRequest()).request == Request(None, None, None, [], 5)
    assert counted(service, "unknown_users") == 0.0


def test_seed_of_zero_is_used(service):
    assert resolve(service, RecommendRequest(seed=0)).request.seed == 0


def test_history_of_unknown_items_is_empty_and_not_missing(service):
    assert resolve(service, RecommendRequest(user_id="u3", history=[])).request.history == []
    assert resolve(service, RecommendRequest(user_id="u3", history=["zz"])).request.history == []
    assert resolve(service, RecommendRequest(user_id="u3")).request.history is None


def test_stages_are_set_only_on_request(service):
    assert "stages" not in recommend(service, RecommendRequest(), CONTEXT).model_fields_set
    assert [one.name for one in recommend(service, RecommendRequest(trace=True), CONTEXT).stages] == [
        "pool",
        "seen",
        "rank",
        "diverse",
    ]


def test_explanation_has_the_position_of_the_item_in_the_slate(service):
    third = recommend(service, RecommendRequest(user_id="u3"), CONTEXT).items[2]
    explained = explain_item(service, ExplainRequest(user_id="u3", item_id=third.item_id), CONTEXT)
    assert (explained.request_id, explained.verdict, explained.position, explained.title) == (
        "r1",
        "returned",
        3,
        third.title,
    )
    assert explained.sentence == f"{third.title} was returned at position 3."


def test_unknown_item_is_refused_before_anything_is_counted(service):
    with pytest.raises(RefusedError, match=r"^the item is not in the catalogue of this model$") as caught:
        explain_item(service, ExplainRequest(user_id="nobody", item_id="zz"), CONTEXT)
    assert caught.value.code == "unknown-item"
    assert counted(service, "unknown_users") == 0.0
