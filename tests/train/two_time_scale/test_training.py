from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.train.loop.trainer import Fit
from shortlist.train.two_time_scale import trials
from shortlist.train.two_time_scale.training import Training, best_epoch
from shortlist.train.two_time_scale.untrained import NOBODY
from tests.train.two_time_scale.worlds import quick, split, tastes

SPLIT = split(60)
EVENTS, VALID = SPLIT.train, SPLIT.valid_requests()
ACTIVE = EVENTS.lengths > 12


def trained(valid=VALID, **settings):
    return quick(**settings).learn(EVENTS, valid, seed=0)


def same(one, other):
    mine, theirs = one.state_dict(), other.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@torch.no_grad()
def scores(model):
    users = torch.arange(EVENTS.n_users)
    width = int(EVENTS.lengths.max())
    history = torch.full((EVENTS.n_users, width), -1)
    for user in range(EVENTS.n_users):
        own = EVENTS.items[EVENTS.of_user(user)]
        if len(own):
            history[user, -len(own) :] = torch.tensor(own.tolist())
    return model.scores(history, users)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"readout": "plain"},
        {"readout": "plus"},
        {"base": "full"},
        {"base": "full", "replay": False},
        {"prefix": "none"},
        {"prefix": "threshold"},
        {"items": "frozen"},
        {"transfer": False},
        {"start": "shrink"},
        {"stages": "one"},
        {"stages": "one", "readout": "plain"},
        {"personal": "common"},
        {"personal": "none"},
        {"personal": "swap"},
        {"last": 0},
        {"last": 0, "readout": "plain"},
        {"last": 10},
        {"span": 0},
        {"span": 5, "readout": "plus"},
        {"dropout": 0.0},
        {"threshold": NOBODY},
        {"threshold": 0},
        {"gate_bias": 0.0, "readout": "plain", "transfer": False},
        {"loss": "offers"},
        {"loss": "offers", "logq_correction": False},
        {"prior": 1.0},
    ],
    ids=str,
)
def test_every_variant_and_ablation_trains_and_scores(settings):
    """Spec 2.4."""
    model = trained(**settings)
    found = scores(model)
    assert not model.training
    assert bool(found.isfinite().all())
    assert float(found.std(1).min()) > 0


def test_users_above_the_threshold_alone_have_vectors_of_their_own():
    """Spec test 24, and 2: vectors of other users are not in the model."""
    twelve = int(np.sort(np.unique(EVENTS.lengths))[len(np.unique(EVENTS.lengths)) // 2])
    model = trained(threshold=twelve)
    active = model.active(torch.arange(EVENTS.n_users)).numpy()
    assert active.tolist() == (EVENTS.lengths > twelve).tolist()
    assert (EVENTS.lengths == twelve).any()
    assert len(model.own) == active.sum()


def test_vectors_of_inactive_users_change_nothing(monkeypatch):
    """Spec test 23: NaN in all vectors of inactive users after the first stage."""
    plain = Training(quick(), Fit(EVENTS, VALID)).run().model
    other = Training(quick(), Fit(EVENTS, VALID))
    assert bool(other.space.items.isfinite().all())
    with torch.no_grad():
        other.first.user_embedding.weight[torch.from_numpy(~ACTIVE)] = torch.nan
    assert same(other.run().model, plain)


def test_base_holds_all_events_but_the_last():
    for settings, left in (({}, 4), ({"base": "full"}, 4), ({"base": "full", "replay": False}, 0)):
        model = trained(**settings)
        users = torch.from_numpy(np.flatnonzero(ACTIVE))
        expected = EVENTS.lengths[ACTIVE] - left
        assert model.base_events(users).tolist() == expected.tolist()


def test_bases_of_sequences_do_not_depend_on_their_events():
    """Spec test 20, for every sequence that active users are trained on: items are frozen."""
    training = Training(quick(span=5), Fit(EVENTS, VALID))
    found = training._after_bases(ACTIVE, 12, training.space)
    ends = EVENTS.starts[found.users + 1]
    at = int(np.flatnonzero(found.stops < ends)[0])  # the one before it is the next of this user
    changed = EVENTS.items.copy()
    changed[found.starts[at] : ends[at]] = 0
    training.events = replace(EVENTS, items=changed)
    other = training._after_bases(ACTIVE, 12, training.space)
    assert found.bases is not None
    assert other.bases is not None
    torch.testing.assert_close(found.bases[at], other.bases[at], rtol=1e-4, atol=1e-4)
    assert float((found.bases[at - 1] - other.bases[at - 1]).abs().max()) > 0.01


def test_items_and_own_vectors_stay_as_they_are_in_the_active_phase(monkeypatch):
    """Spec 11.7."""
    model = trained(epochs=1)
    longer = trained(epochs=1, learning_rate=0.1)
    frozen = [trained(items="frozen", epochs=1, learning_rate=one).items for one in (1e-3, 0.1)]
    assert torch.equal(*frozen)
    assert not torch.equal(model.items, longer.items)


def test_tuned_items_are_not_those_of_the_first_stage():
    start = Training(quick(), Fit(EVENTS, VALID)).space
    assert torch.equal(trained(items="frozen").items, start.items)
    assert not torch.equal(trained().items, start.items)


def test_without_last_events_the_vector_is_that_of_the_factorisation():
    """Spec 2.4, K = 0: events do not move active users."""
    for readout in ("plain", "anchored"):
        model = trained(last=0, readout=readout)
        user = torch.tensor([int(np.flatnonzero(ACTIVE)[0])])
        base = int(model.base_events(user))
        history = torch.randint(EVENTS.n_items, (1, base + 9))
        torch.testing.assert_close(
            model.users(history, user).detach(), model.personal(user), rtol=1e-5, atol=1e-6
        )


def test_unknown_users_of_a_shrunk_model_have_the_mean():
    model = trained(start="shrink")
    vectors = model.users(torch.full((1, 2), -1), torch.tensor([-1]))
    state = model.output(model.active_start[None])
    torch.testing.assert_close(vectors, model.anchor * model.mean[None] + state)


@pytest.mark.parametrize(
    "settings", [{"personal": "common"}, {"personal": "swap"}, {"stages": "one"}], ids=str
)
def test_ablations_promote_nobody(settings):
    assert trained().promotion() is not None
    assert trained(**settings).promotion() is None


def test_threshold_is_chosen_on_validation(monkeypatch):
    monkeypatch.setattr(trials, "FEW_EVENTS", 5)
    monkeypatch.setattr(trials, "candidates", lambda lengths: (3, 8, 12))
    notes = []

    class Notes:
        def __call__(self, task, done, total):
            """Count nothing."""

        def note(self, task, text):
            notes.append(text)

    model = quick(threshold=-1).learn(EVENTS, VALID, 0, Notes())
    assert model.config.threshold in (-1, 3, 8, 12)
    assert any(note.startswith("gain of own vectors") for note in notes)


def test_without_validation_nobody_is_active_by_choice():
    model = trained(valid=None, threshold=-1)
    assert model.config.threshold == -1
    assert not model.active(torch.arange(EVENTS.n_users)).any()


def test_same_seed_gives_the_same_model():
    assert same(trained(), trained())


def test_interrupted_training_continues_to_the_same_model(tmp_path):
    whole = quick().learn(EVENTS, VALID, folder=tmp_path / "one")
    for at in (3, 9, 15):

        def stop(task, done, total, at=at, seen=[0]):  # noqa: B006
            seen[0] += 1
            if seen[0] == at:
                raise KeyboardInterrupt

        folder = tmp_path / f"stopped-{at}"
        with pytest.raises(KeyboardInterrupt):
            quick().learn(EVENTS, VALID, progress=stop, folder=folder)
        assert same(quick().learn(EVENTS, VALID, folder=folder), whole)


def test_training_without_validation_takes_epochs_and_threshold_of_the_measured_model():
    measured = trained()
    again = quick(threshold=-1).learn(tastes(70, seed=3), None, warm=measured)
    assert again.config.threshold == 12
    assert again.config.new_epochs == measured.config.new_epochs
    assert again.config.first_epochs == measured.config.first_epochs


def test_epochs_are_those_up_to_the_best():
    assert best_epoch([0.1, 0.3, 0.3, 0.2]) == 2
    assert best_epoch([]) == 0


def test_events_of_weight_zero_are_history_alone():
    """Items of events that are no examples get no gradient as targets, but are read."""
    shares = np.ones(len(EVENTS), np.float32)
    shares[::3] = 0
    model = quick().learn(replace(EVENTS, examples=shares), VALID)
    assert bool(scores(model).isfinite().all())


def test_weights_of_events_change_the_model():
    weights = 1 + (EVENTS.items % 3).astype(np.float32)
    weighted = Interactions.of(
        EVENTS.users, EVENTS.items, EVENTS.times, weights, n_users=EVENTS.n_users, n_items=EVENTS.n_items
    )
    assert not same(quick().learn(weighted, VALID), trained())


def test_a_given_prior_is_in_the_gauge_of_the_recurrences():
    """Tuned item vectors begin as those in this gauge: the weight of the prior is the same as with frozen ones."""
    priors = {items: trained(prior=2.0, items=items).config.prior for items in ("tuned", "frozen")}
    assert priors["tuned"] == pytest.approx(priors["frozen"])
    assert priors["tuned"] != 2.0


def test_the_prior_is_chosen_with_the_last_events_of_the_variant():
    """Variants that share the recurrence of all users choose their own prior."""
    first = Training(quick(last=4, prior=0.0), Fit(EVENTS, VALID))
    first.run()
    shared, alone = (Training(quick(last=2, prior=0.0), Fit(EVENTS, VALID)) for _ in range(2))
    shared.first, shared.everyone, shared.state = first.first, first.everyone, first.state
    assert shared.run().model.config.prior == alone.run().model.config.prior


def test_swapped_users_are_trained_on_all_their_events_but_the_first():
    training = Training(quick(personal="swap"), Fit(EVENTS, VALID))
    few = (EVENTS.lengths > 0) & ~ACTIVE
    found = training._after_bases(few, 12, training.space)
    assert found.lengths.tolist() == np.maximum(EVENTS.lengths[few] - 1, 1).tolist()
