import torch

from shortlist.data import Candidates, Query
from shortlist.train.context import RequestBatch, TrainContext, is_in


def test_membership_agrees_with_sets():
    generator = torch.Generator().manual_seed(0)
    items = torch.randint(-1, 30, (20, 15), generator=generator)
    truth = torch.randint(-1, 30, (20, 6), generator=generator)
    expected = [
        [i >= 0 and i in set(t.tolist()) for i in row.tolist()] for row, t in zip(items, truth, strict=True)
    ]
    assert is_in(items, truth).tolist() == expected


def test_membership_in_nothing_is_false():
    assert not is_in(torch.tensor([[1, 2]]), torch.empty(1, 0, dtype=torch.int64)).any()


def test_a_round_knows_what_was_wanted_among_what_is_valid():
    found = Candidates.of(torch.tensor([[4, 5, 6]]), torch.zeros(1, 3)).keep(
        torch.tensor([[True, False, True]])
    )
    round_ = RequestBatch(Query.of([[1]]), found, torch.tensor([[5, 6, -1]]))
    assert round_.wanted.tolist() == [[False, False, True]]


def test_material_knows_when_the_log_ends(world):
    context = TrainContext(world.events, world.catalog)
    assert context.ends == world.events.times.max()
    assert len(context.categories) == len(world.items)


def test_how_a_training_went_is_forgotten_unless_somebody_listens(world):
    events, heard = world.split().train, {}
    TrainContext(events, world.catalog).note("towers", {"epochs": 3})
    context = TrainContext(events, world.catalog, note=lambda name, facts: heard.update({name: facts}))
    context.note("towers", {"epochs": 3})
    assert heard == {"towers": {"epochs": 3}}
