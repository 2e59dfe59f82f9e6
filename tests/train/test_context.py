"""The input of trainers: batches of requests know their targets, and a context its last event and checkpoints."""

from dataclasses import replace

import torch

from shortlist.data import Candidates, Query
from shortlist.pipeline.about import TrainingHistory
from shortlist.train.context import RequestBatch, TrainContext


def test_targets_of_a_batch_are_valid_candidates():
    found = Candidates.of(torch.tensor([[4, 5, 6]]), torch.zeros(1, 3)).keep(
        torch.tensor([[True, False, True]])
    )
    batch = RequestBatch(Query.of([[1]]), found, torch.tensor([[5, 6, -1]]))
    assert batch.is_target.tolist() == [[False, False, True]]


def test_batch_after_a_stage_keeps_requests_and_targets():
    found = Candidates.of(torch.tensor([[4, 5, 6]]), torch.zeros(1, 3))
    batch = RequestBatch(Query.of([[1]]), found, torch.tensor([[5, 6, -1]]))
    after = batch.through(lambda query, found: found.keep(found.items != 6))
    assert after.query is batch.query
    assert after.targets is batch.targets
    assert after.is_target.tolist() == [[False, True, False]]


def test_context_knows_the_last_event_and_the_categories(world):
    context = TrainContext(world.events, world.catalog)
    assert context.ends == world.events.times.max()
    assert len(context.categories) == len(world.items)


def test_training_history_is_recorded_only_if_asked_for(world):
    events, histories = world.split().train, {}
    history = TrainingHistory(epochs=3, max_epochs=5)
    TrainContext(events, world.catalog).note("towers", history)
    TrainContext(events, world.catalog, note=histories.__setitem__).note("towers", history)
    assert histories == {"towers": history}


def test_checkpoint_folder_depends_on_task_settings_seed_and_events(world, tmp_path):
    events = world.split().train
    assert TrainContext(events, world.catalog).checkpoint_folder("tree", {"width": 3}) is None
    context = TrainContext(events, world.catalog, checkpoint_dir=tmp_path)
    folder = context.checkpoint_folder("tree", {"width": 3})
    assert folder is not None
    assert folder.parent == tmp_path
    assert folder.name.startswith("tree-")
    assert context.checkpoint_folder("tree", {"width": 3}) == folder
    others = {
        context.checkpoint_folder("tree", {"width": 4}),
        context.checkpoint_folder("sasrec", {"width": 3}),
        replace(context, seed=1).checkpoint_folder("tree", {"width": 3}),
        replace(context, events=world.events).checkpoint_folder("tree", {"width": 3}),
    }
    assert len(others | {folder}) == 5
