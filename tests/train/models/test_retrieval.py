"""Trainers of retrieval: objectives on events, and lists of logged requests beside the events."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.settings import settings_of
from shortlist.train.context import TrainContext
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.loop.trainer import Fit
from shortlist.train.models.retrieval import RetrievalTrainer
from shortlist.train.objectives.from_log import LeftOut
from shortlist.train.objectives.instances import InstanceBatch
from shortlist.train.objectives.stage_log import StageLog
from shortlist.train.registry import make_trainer
from tests.train.logs import tastes

SMALL = {
    "mf": {"width": 8, "epochs": 20, "batch_size": 64, "learning_rate": 0.05, "device": "cpu"},
    "two-tower": {
        "width": 8,
        "hidden": 8,
        "epochs": 8,
        "batch_size": 64,
        "learning_rate": 0.02,
        "device": "cpu",
    },
}
T = 3
CHOICES = next(one.choices for one in settings_of(RetrievalTrainer) if one.name == "objective")


def logged(events, seed: int = 0) -> TrainingLog:
    """Three requests of every user, after all events: shown items of the other half of the catalogue are positive."""
    rng, rows = np.random.default_rng(seed), []
    for user in range(events.n_users):
        own = 10 * (user % 2)  # the half of the user's events
        for _ in range(3):
            liked, known = 10 - own + rng.permutation(10), own + rng.permutation(10)
            rows.append([*liked[:2], *known[:1], *known[1:4], *known[4:7]])
    stage, y = [3, 3, 3, 2, 2, 2, 1, 1, 1], [1, 1, 0, -1, -1, -1, -1, -1, -1]
    count = len(rows)
    log = StageLog(
        np.repeat(np.arange(events.n_users), 3),
        9 * np.arange(count + 1),
        np.concatenate(rows),
        np.tile(stage, count),
        np.tile(y, count),
        events.n_items,
        T,
        np.tile([1.0, 1, 1, 0.5, 0.5, 0.5, 0.1, 0.1, 0.1], count),
    )
    return TrainingLog(log, np.full(count, 1 << 40), ("pool", "pre", "rank"), LeftOut(count, 9 * count, T))


def margin(model, events) -> float:
    """Mean score of the half that logged feedback prefers, minus that of the other half."""
    users = torch.arange(events.n_users)
    history = torch.from_numpy(
        np.stack([events.items[s : s + 6] for s in events.starts[:-1]]).astype(np.int64)
    )
    scores = model.scores(history, users).detach()
    other = (torch.arange(20) >= 10)[None] == (users % 2 == 0)[:, None]
    return float(scores[other].mean() - scores[~other].mean())


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("objective", ["softmax", "ranknet", "lambdarank"])
def test_logged_feedback_changes_what_is_retrieved(kind, objective):
    events = tastes()
    trainer = make_trainer(kind, objective=objective, **SMALL[kind])
    without = margin(trainer.learn(events, seed=1), events)
    with_log = margin(trainer.learn(events, seed=1, log=logged(events)), events)
    assert without < 0 < with_log - without


@pytest.mark.parametrize("objective", CHOICES)
@pytest.mark.parametrize("kind", SMALL)
def test_every_objective_learns_tastes_from_events_alone(kind, objective):
    events = tastes()
    model = make_trainer(kind, objective=objective, **SMALL[kind]).learn(events, seed=1)
    assert margin(model, events) < 0


def test_epoch_has_all_events_and_every_logged_positive_once():
    events, trainer = tastes(), make_trainer("mf", **SMALL["mf"] | {"batch_size": 50})
    model, log = trainer.begin(events, None), logged(events)
    own = trainer._batches(model, events, 0, torch.device("cpu"))
    batches, steps = trainer.with_log(own, trainer._steps(events), model, Fit(events, log=log))
    assert steps == 5 + 5  # 240 events, and 240 logged positives
    assert [len(list(batches(epoch))) for epoch in (0, 1)] == [10, 10]
    losses = [step() for step in batches(0)]
    assert all(loss.requires_grad and torch.isfinite(loss) for loss in losses)


def test_lists_hold_negatives_of_every_stage_and_random_items_without_an_event():
    events, trainer = tastes(), make_trainer("mf", ht_weight=True, **SMALL["mf"])
    sampler = trainer.sampler(logged(events), events, 0)
    for batch in sampler.batches(0):
        assert batch.labels[:, :4].tolist() == [[4, 3, 2, 1]] * len(batch)
        assert bool((batch.labels[:, 4:] == 0).all())
        assert bool((batch.weight[:, :4] == torch.tensor([1.0, 1, 2, 10])).all())
        users = sampler.log.user_id[batch.users.numpy()]
        for user, items in zip(users, batch.items[:, 4:].tolist(), strict=True):
            start = events.starts[user]
            assert not set(items) & set(events.items[start : start + 6].tolist())


def test_stage_negatives_and_ladder_are_those_of_the_settings():
    events = tastes()
    trainer = make_trainer("mf", stage_negatives=[2, 0, 1], ladder="high-positive", **SMALL["mf"])
    batch = next(trainer.sampler(logged(events), events, 0).batches(0))
    # Two shown negatives, of which there is one, none of S = 2, and one of S = 1.
    assert batch.labels[0][batch.mask[0]].tolist() == [2, 1, 0]
    assert batch.mask.sum(1).tolist() == [3] * len(batch)
    with pytest.raises(
        ConfigError, match="stage_negatives has 5 numbers, but stage 1 of 3 gets candidates of 4"
    ):
        make_trainer("mf", stage_negatives=[1] * 5, **SMALL["mf"]).sampler(logged(events), events, 0)


def test_two_towers_score_with_the_history_at_the_time_of_the_request():
    events, trainer = tastes(), make_trainer("two-tower", max_history=4, **SMALL["two-tower"])
    model, log = trainer.begin(events, None).eval(), logged(events)
    early = TrainingLog(log.log, np.full(len(log), int(events.times[2])), log.stages, log.left_out)
    items = torch.tensor([[3, -1, 15], [2, 9, 0]])
    instances = InstanceBatch(torch.tensor([0, 5]), items, *(torch.zeros(2, 3),) * 3)
    got = trainer.instance_scores(model, events, early)(instances)
    for row, request in enumerate((0, 5)):
        user = int(log.log.user_id[request])
        known = events.items[events.starts[user] : events.starts[user + 1]]
        known = known[events.times[events.starts[user] : events.starts[user + 1]] < events.times[2]]
        history = torch.tensor([[-1] * (4 - len(known[-4:])) + known[-4:].tolist()])
        assert torch.allclose(got[row], model(history, items[row : row + 1].clamp(min=0))[0], atol=1e-6)


def test_fit_reads_the_log_of_the_context(world):
    events = tastes()
    trainer = make_trainer("mf", **SMALL["mf"])
    context = TrainContext(events, None, log=logged(events))  # type: ignore[arg-type]
    assert margin(trainer.learned(context), events) > margin(
        trainer.learned(TrainContext(events, None)), events
    )  # type: ignore[arg-type]


def test_loss_beside_an_objective_is_refused():
    with pytest.raises(
        ConfigError, match="mf: set loss or objective, got loss = 'bpr' and objective = 'ranknet'"
    ):
        make_trainer("mf", loss="bpr", objective="ranknet")
    with pytest.raises(ConfigError, match="objective 'softmax' does not read sigma"):
        make_trainer("two-tower", sigma=2.0)
