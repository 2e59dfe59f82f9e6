"""Warm-up requests before the service is ready."""

from shortlist.pipeline import Recommender
from shortlist.pipeline.recommender import Request

ROUNDS = 3


def warm_up(recommender: Recommender) -> None:
    """Answer requests of an unknown user, a known user and a short history, so that lazy values are computed."""
    items, users = recommender.catalog.vocabulary, recommender.users
    history = [items.id(row) for row in range(min(5, len(items)))]
    requests = [
        Request(),
        Request(history=history),
        *(Request(user=users.id(row)) for row in range(min(1, len(users)))),
    ]
    for request in requests * ROUNDS:
        recommender.recommendations(recommender.recommend(request))
