"""Examples of requests have ids of the served bundle."""

from dataclasses import replace

from shortlist.data import Vocabulary
from shortlist.serve.examples import request_examples, with_examples

from .small_service import recommender_of


def test_examples_have_ids_of_the_bundle():
    examples = request_examples(recommender_of(ids=[f"item {row}" for row in range(60)]))
    assert examples["/v1/recommend"] == {"user_id": "u0", "k": 5, "exclude": ["item 0"], "trace": True}
    assert examples["/v1/explain"] == {"user_id": "u0", "item_id": "item 0"}


def test_bundle_without_users_has_examples_without_a_user():
    examples = request_examples(replace(recommender_of(), users=Vocabulary.of([])))
    assert all("user_id" not in body for body in examples.values())


def test_example_is_in_the_body_of_its_route():
    content = {"application/json": {}}
    with_examples({"paths": {"/a": {"post": {"requestBody": {"content": content}}}}}, {"/a": {"k": 1}})
    assert content == {"application/json": {"example": {"k": 1}}}
