from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions, half_history
from shortlist.errors import ConfigError
from shortlist.train.loop.device import device_of
from shortlist.train.loop.validation import judge_of
from shortlist.train.models.sasrec import SASRecTrainer
from tests.train.logs import chains as walked

TINY = SASRecTrainer(width=16, epochs=2, max_history=8, batch_size=32, device="cpu")


@pytest.fixture
def chains() -> Interactions:
    return walked()


def test_it_learns_a_pattern_by_heart(chains):
    model = SASRecTrainer(
        width=16, max_history=8, epochs=40, batch_size=16, learning_rate=1e-2, dropout=0.0, device="cpu"
    ).learn(chains)
    starts = torch.tensor([[0, 1, 2], [-1, 5, 6], [17, 18, 19]])
    with torch.no_grad():
        assert model.scores(starts).argmax(1).tolist() == [3, 7, 10]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(chains):
    one, two, other = (TINY.learn(chains, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["items.weight"], other["items.weight"])


def test_progress_never_tells_more_than_there_is(chains):
    told = []
    TINY.learn(chains, progress=lambda *what: told.append(what))
    assert all(what == "sasrec" and done <= whole for what, done, whole in told)
    assert told[-1][1] == told[-1][2]


def test_it_foretells_better_than_popularity(world):
    split = half_history(world.events, seed=0, held_out=0.2)
    trainer = SASRecTrainer(
        width=32, max_history=30, epochs=25, batch_size=32, learning_rate=3e-3, patience=4, device="cpu"
    )
    model = trainer.learn(split.train, split.valid)
    reached = judge_of(model, split.test, 0)()
    popular = torch.from_numpy(split.train.popularity).float()
    model.scores = lambda history, user=None: popular.repeat(len(history), 1)
    by_popularity = judge_of(model, split.test, 0)()
    assert reached > 1.1 * by_popularity


def test_nothing_to_learn_from_still_gives_a_model():
    events = Interactions.of(np.empty(0, int), np.empty(0, int), n_users=2, n_items=3)
    assert TINY.learn(events).scores(torch.tensor([[0, 1]])).isfinite().all()


def test_users_with_one_event_are_enough_to_learn_what_is_common():
    events = Interactions.of(np.arange(30), np.array([2] * 20 + [0] * 10), n_items=3)
    model = SASRecTrainer(width=8, epochs=30, batch_size=8, learning_rate=1e-2, device="cpu").learn(events)
    assert model.scores(torch.full((1, 0), -1)).argsort(descending=True).tolist() == [[2, 0, 1]]


def test_settings_no_training_can_run_with_are_refused(chains):
    with pytest.raises(ConfigError, match="blocks must lie between"):
        SASRecTrainer(blocks=0).learn(chains)
    with pytest.raises(ConfigError, match='device must be "auto"'):
        SASRecTrainer(device="tpu").learn(chains)


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert (device_of("auto").type, device_of("cpu").type, device_of("cuda").type) == ("cuda", "cpu", "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_of("auto").type == "cpu"
    with pytest.raises(ConfigError, match="torch finds no GPU here"):
        device_of("cuda")


def test_it_learns_with_labels_from_further_ahead(chains):
    model = replace(TINY, ahead=3, epochs=30, learning_rate=1e-2, dropout=0.0).learn(chains)
    with torch.no_grad():
        best = model.scores(torch.tensor([[0, 1, 2]])).topk(3).indices[0].tolist()
    assert set(best) == {3, 4, 5}
