"""POST /v1/explain."""

import pytest

from shortlist.artifact.as_json import as_json
from shortlist.pipeline.recommender import Request

from .small_service import ITEMS, check_problem, recommender_of

LIBRARY = recommender_of()


@pytest.mark.parametrize("item", [f"i{row}" for row in range(0, ITEMS, 7)])
def test_service_gives_the_explanation_of_the_library(client, item):
    response = client.explain(user_id="u1", item_id=item).json()
    explanation = LIBRARY.explain(Request(user="u1"), item)
    expected = {name: value for name, value in as_json(explanation).items() if name != "item"}
    assert {name: response[name] for name in expected} == expected
    assert response["sentence"] == explanation.sentence(response["title"])
    assert response["item_id"] == item


def test_every_verdict_occurs(client):
    found = {client.explain(user_id="u1", item_id=f"i{row}").json()["verdict"] for row in range(ITEMS)}
    assert found == {"returned", "not nominated", "removed", "cut"}


def test_returned_item_has_its_position_in_the_slate(client):
    items = client.recommend(user_id="u1").json()["items"]
    response = client.explain(user_id="u1", item_id=items[2]["item_id"]).json()
    assert (response["verdict"], response["position"], response["dropped_at"]) == ("returned", 3, "")


@pytest.mark.parametrize("item", ["nothing", 12, "--5"])
def test_unknown_item_is_not_found(client, item):
    problem = check_problem(client.explain(user_id="u1", item_id=item), 404, "unknown-item")
    assert str(item) not in problem["detail"]


def test_explanation_needs_an_item(client):
    problem = check_problem(client.explain(user_id="u1"), 422, "invalid-request")
    assert problem["errors"] == [{"pointer": "/item_id", "message": "the field is required"}]


def test_explanation_has_the_funnel_on_request(client):
    response = client.explain(history=["i1"], item_id="i2", trace=True, k=3).json()
    assert response["stages"][-1]["kept"] == 3
