"""Examples of requests have ids of the served bundle."""

from dataclasses import replace

from shortlist.data import Vocabulary
from shortlist.pipeline import About
from shortlist.serve.examples import EXAMPLE_TIME, request_examples, with_examples

from .small_service import recommender_of


def test_examples_have_ids_of_the_bundle():
    examples = request_examples(recommender_of(ids=[f"item {row}" for row in range(60)]))
    assert examples["/v1/recommend"] == {"user_id": "u0", "k": 5, "exclude": ["item 0"], "trace": True}
    assert examples["/v1/explain"] == {"user_id": "u0", "item_id": "item 0"}
    (event,) = examples["/v1/events"]["events"]
    assert (event["user_id"], event["item_id"], event["event_ts_ms"]) == ("u0", "item 0", EXAMPLE_TIME)


def test_time_of_the_example_is_after_the_log_of_the_bundle():
    late = replace(recommender_of(), about=About(ends=2 * EXAMPLE_TIME))
    (event,) = request_examples(late)["/v1/events"]["events"]
    assert event["event_ts_ms"] == 2 * EXAMPLE_TIME + 1


def test_bundle_without_users_has_examples_without_a_user():
    examples = request_examples(replace(recommender_of(), users=Vocabulary.of([])))
    assert all("user_id" not in body for body in examples.values())


def test_example_is_in_the_body_of_its_route():
    content = {"application/json": {}}
    with_examples({"paths": {"/a": {"post": {"requestBody": {"content": content}}}}}, {"/a": {"k": 1}})
    assert content == {"application/json": {"example": {"k": 1}}}
