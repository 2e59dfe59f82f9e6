"""Queries: batches of requests, padded on the left."""

import torch

from shortlist.data import Query


def test_histories_are_padded_on_the_left_and_users_default_to_unknown():
    query = Query.of([[1, 2, 3], [], [4]])
    assert query.history.tolist() == [[1, 2, 3], [-1, -1, -1], [-1, -1, 4]]
    assert query.user.tolist() == [-1, -1, -1]
    assert query.time.tolist() == [0, 0, 0]
    assert query.seed.tolist() == [0, 1, 2]
    assert len(query) == 3


def test_width_keeps_the_last_items_of_each_history():
    assert Query.of([[1, 2, 3], [4]], width=2).history.tolist() == [[2, 3], [-1, 4]]
    assert Query.of([[1], []], width=3).history.tolist() == [[-1, -1, 1], [-1, -1, -1]]
    assert Query.of([[1, 2], []], width=0).history.shape == (2, 0)


def test_a_query_can_be_empty():
    assert Query.of([]).history.shape == (0, 1)


def test_a_subset_of_requests_keeps_their_context():
    query = Query.of([[1], [2], [3]], users=[7, 8, 9], times=[4, 5, 6], seeds=[1, 2, 3])
    query = Query(
        query.user, query.history, query.time, query.seed, {"exclude": torch.tensor([[1], [2], [3]])}
    )
    some = query.take(slice(1, 3))
    assert (some.user.tolist(), some.time.tolist(), some.seed.tolist()) == ([8, 9], [5, 6], [2, 3])
    assert some.history.tolist() == some.context["exclude"].tolist() == [[2], [3]]
    assert query.take(torch.tensor([2, 0])).user.tolist() == [9, 7]


def test_to_moves_every_tensor_to_the_device():
    query = Query.of([[1]])
    moved = Query(query.user, query.history, query.time, query.seed, {"x": torch.ones(1)}).to("meta")
    parts = [moved.user, moved.history, moved.time, moved.seed, moved.context["x"]]
    assert {part.device.type for part in parts} == {"meta"}
