"""Requests that a client can copy: their ids exist in the served bundle."""

from collections.abc import Mapping
from typing import Any

from shortlist.pipeline import Recommender


def request_examples(recommender: Recommender) -> dict[str, dict[str, Any]]:
    """A body for every route that takes one, by path."""
    items, users = recommender.catalog.vocabulary, recommender.users
    user = {"user_id": users.id(0)} if len(users) else {}
    return {
        "/v1/recommend": {**user, "k": 5, "exclude": [items.id(0)], "trace": True},
        "/v1/explain": {**user, "item_id": items.id(0)},
    }


def with_examples(document: dict[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with these bodies as examples."""
    for path, body in examples.items():
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = body
    return document
