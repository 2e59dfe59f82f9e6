"""Requests that a client can copy: their ids exist in the served bundle."""

from collections.abc import Mapping
from typing import Any

from shortlist.pipeline import Recommender
from shortlist.pipeline.live.states import since_ms

EXAMPLE_TIME = 1_735_689_600_000  # 2025-01-01


def request_examples(recommender: Recommender) -> dict[str, dict[str, Any]]:
    """A body for every route that takes one, by path."""
    items, users = recommender.catalog.vocabulary, recommender.users
    user = {"user_id": users.id(0)} if len(users) else {}
    taken = {"user_id": users.id(0) if len(users) else "new", "item_id": items.id(0), "event": "click"}
    clicked = {**taken, "event_ts_ms": max(EXAMPLE_TIME, since_ms(recommender)), "event_id": "click-1"}
    return {
        "/v1/recommend": {**user, "k": 5, "exclude": [items.id(0)], "trace": True},
        "/v1/explain": {**user, "item_id": items.id(0)},
        "/v1/events": {"events": [clicked]},
    }


def with_examples(document: dict[str, Any], examples: Mapping[str, Any]) -> dict[str, Any]:
    """An OpenAPI document with these bodies as examples."""
    for path, body in examples.items():
        document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = body
    return document
