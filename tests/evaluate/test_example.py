import pytest
import torch

from shortlist.evaluate.example import typical_request, worked_example


def test_example_has_history_slate_stage_counts_and_lost_items(world, recommender):
    held_out = world.split().test
    example = worked_example(recommender, world, held_out, 0)
    assert example.user == world.users.id(int(held_out.users[0]))
    assert example.history[0].item_id == world.items.id(int(world.events.items[held_out.cuts[0] - 1]))
    assert [stage.name for stage in example.stages] == [stage.title for stage in recommender.pipeline.stages]
    relevant = set(held_out.relevant()[0].tolist())
    for item in example.items:
        assert item.relevant == (recommender.item_row(item.item_id) in relevant)
    assert len({item.explanation.dropped_at for item in example.lost}) == len(example.lost)
    assert all(item.sentence.startswith(item.title) for item in example.lost)


@pytest.mark.parametrize(
    ("recall", "expected"), [([0.0, 0.1, 0.9, 0.5], 3), ([0.0, 0.0], 0), ([float("nan"), 0.2], 1)]
)
def test_typical_request_has_the_median_recall_among_successes(recall, expected):
    assert typical_request(torch.tensor(recall)) == expected
