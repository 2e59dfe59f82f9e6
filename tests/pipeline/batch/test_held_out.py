import numpy as np
import pytest
import torch

from shortlist.pipeline import run
from shortlist.pipeline.batch import held_out as module
from shortlist.pipeline.batch.held_out import batches, in_batches, in_order, slates_of
from shortlist.pipeline.recommender import resized


def test_batches_have_every_request_once_with_its_whole_history(world, monkeypatch):
    monkeypatch.setattr(module, "MOST", 7)
    monkeypatch.setattr(module, "LEAST", 1)
    held_out = world.split(protocol="leave-last-out").test
    found = in_batches(lambda part, query: (part, query), held_out)
    assert sorted(np.concatenate([rows for rows, _ in found]).tolist()) == list(range(len(held_out)))
    assert max(len(rows) for rows, _ in found) == 7
    for rows, (part, query) in found:
        assert (held_out.users[rows] == part.users).all()
        assert ((query.history >= 0).sum(1).numpy() == held_out.history_lengths()[rows]).all()


def test_little_of_a_batch_is_padding(world, monkeypatch):
    monkeypatch.setattr(module, "MOST", 16)
    held_out = world.split(protocol="leave-last-out").test
    widths = [query.history.shape[1] for _, query in in_batches(lambda _, query: query, held_out)]
    assert widths == sorted(widths)
    assert widths[0] < widths[-1]


def test_scores_of_a_batch_against_the_catalogue_are_bounded(world, monkeypatch):
    held_out = world.split().test
    monkeypatch.setattr(module, "LEAST", 1)
    monkeypatch.setattr(module, "CELLS", 3 * held_out.events.n_items)
    assert max(map(len, batches(held_out))) == 3


def test_failure_of_a_batch_is_raised(world):
    def fails(part, query):
        raise ValueError("broken stage")

    with pytest.raises(ValueError, match="broken stage"):
        in_batches(fails, world.split().test)


def test_slates_in_batches_are_those_of_single_requests(world, recommender, monkeypatch):
    monkeypatch.setattr(module, "MOST", 16)
    held_out = world.split().test.take(slice(0, 20))
    pipeline = recommender.as_measured().pipeline
    found, sized = slates_of(pipeline, held_out, 10), resized(pipeline, 10)
    for row in range(20):
        one = held_out.take(slice(row, row + 1))
        alone = run(sized, one.query(width=max(int(one.history_lengths()[0]), 1))).items[0]
        assert found[row].tolist() == alone.tolist()


def test_slates_of_different_widths_are_padded():
    parts = [(np.array([1]), torch.tensor([[5, 6]])), (np.array([0]), torch.tensor([[7]]))]
    assert in_order(parts).tolist() == [[7, -1], [5, 6]]
