import pytest

from shortlist.pipeline.recommender import Request

from .tiny import ITEMS, check_problem, recommender_of

LIBRARY = recommender_of()


@pytest.mark.parametrize("item", [f"i{row}" for row in range(0, ITEMS, 7)])
def test_http_explains_as_the_library_does(client, item):
    told = client.explain(user_id="u1", item_id=item).json()
    way = LIBRARY.explain(Request(user="u1"), item)
    same = way.as_dict() | {
        "namings": list(way.as_dict()["namings"]),
        "passages": list(way.as_dict()["passages"]),
    }
    assert {name: told[name] for name in same if name != "item"} == {
        k: v for k, v in same.items() if k != "item"
    }
    assert told["sentence"] == way.sentence(told["title"])
    assert told["item_id"] == item


def test_every_verdict_can_be_told(client):
    found = {client.explain(user_id="u1", item_id=f"i{row}").json()["verdict"] for row in range(ITEMS)}
    assert found == {"returned", "not nominated", "removed", "cut"}


def test_what_was_returned_stands_where_the_explanation_says(client):
    items = client.recommend(user_id="u1").json()["items"]
    told = client.explain(user_id="u1", item_id=items[2]["item_id"]).json()
    assert (told["verdict"], told["position"], told["dropped_at"]) == ("returned", 3, "")


@pytest.mark.parametrize("item", ["nothing", 12, "--5"])
def test_an_unknown_item_is_not_found(client, item):
    problem = check_problem(client.explain(user_id="u1", item_id=item), 404, "unknown-item")
    assert str(item) not in problem["detail"]


def test_an_explanation_needs_an_item(client):
    problem = check_problem(client.explain(user_id="u1"), 422, "invalid-request")
    assert problem["errors"] == [{"pointer": "/item_id", "message": "Field required"}]


def test_an_explanation_comes_with_the_funnel_when_asked_for(client):
    told = client.explain(history=["i1"], item_id="i2", trace=True, k=3).json()
    assert told["stages"][-1]["out"] == 3
