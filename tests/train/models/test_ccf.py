"""The trainer of CCF: what it estimates, features of new items, the prior, masked histories, and memory."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from shortlist.data import Catalog, HeldOut, Interactions, Vocabulary, leave_last_out
from shortlist.errors import ConfigError, DataError
from shortlist.models.collaborative.ccf import CCF, CCFConfig
from shortlist.pipeline import parse_recipe
from shortlist.pipeline.recommender import Request
from shortlist.train import train
from shortlist.train.models.ccf import OfferBatches
from shortlist.train.registry import make_trainer
from tests.train.logs import chains, log, nothing, tastes

CPU = torch.device("cpu")
TINY = make_trainer("ccf", width=8, epochs=20, batch_size=32, uniform_negatives=16, device="cpu")


def catalog(n_items, **columns) -> Catalog:
    return Catalog(Vocabulary.of(list(range(n_items))), pa.table(columns))


def probabilities(model, n_users):
    with torch.no_grad():
        return model.scores(torch.full((n_users, 1), -1), torch.arange(n_users)).softmax(1)


def random_log(n_users=1, n_items=6, events=3000, seed=0):
    """Users with the same unequal taste."""
    p = np.arange(n_items, 0, -1.0) / np.arange(n_items, 0, -1.0).sum()
    random = np.random.default_rng(seed)
    items = random.choice(n_items, events, p=p)
    return Interactions.of(random.integers(0, n_users, events), items, n_users=n_users, n_items=n_items), p


def test_two_groups_of_users_are_learned():
    model = TINY.learn(tastes())
    own = torch.arange(20)[None, :] // 10 == torch.arange(40)[:, None] % 2
    assert own.gather(1, probabilities(model, 40).topk(10).indices).float().mean() > 0.9


def test_corrected_scores_are_log_probabilities_of_a_user():
    """Section 1.1: with the correction the optimum is log p for any sampling, here mostly by popularity."""
    events, _ = random_log()
    counts = events.popularity / len(events)
    trainer = TINY.with_settings(
        batch_size=64, uniform_negatives=192, epochs=8, prior="none", table_learning_rate=0.05
    )
    found = probabilities(trainer.learn(events), 1)[0].numpy()
    assert np.abs(np.log(found / counts)).max() < 0.3


def test_uncorrected_in_batch_scores_are_lifts():
    """Section 1.1: in-batch negatives without correction remove popularity."""
    events, _ = random_log()
    trainer = TINY.with_settings(
        batch_size=64,
        uniform_negatives=0,
        correction=False,
        epochs=15,
        prior="none",
        table_learning_rate=0.03,
    )
    found = probabilities(trainer.learn(events), 1)[0].numpy()
    assert np.abs(np.log(found * 6)).max() < 0.3


def features_world():
    """Items 0..9 have category x, 10..19 y; users 0..39 like one category; item 20 is a new x, 21 a new y."""
    events = tastes()
    events = Interactions.of(events.users, events.items, n_users=40, n_items=22)
    names = ["x"] * 10 + ["y"] * 10 + ["x", "y"]
    return events, catalog(22, category=names, year=[2000.0 + (name == "y") for name in names])


def test_features_alone_place_a_new_item():
    """Item dropout: users who like a category prefer its new item to that of the other one."""
    events, described = features_world()
    model = TINY.with_settings(feature_width=8, learning_rate=0.02, epochs=15).learn(
        events, catalog=described
    )
    scores = probabilities(model, 40)[:, 20:].log()
    likes_x = torch.arange(40) % 2 == 0
    assert torch.equal(scores[:, 0] > scores[:, 1], likes_x)
    with torch.no_grad():
        new = model.encoder.of_features(torch.tensor([[0], [1]]), torch.tensor([[2000.0], [2001.0]]))
    assert torch.allclose(new, model.vectors()[20:], atol=1e-5)


def test_features_can_be_turned_off():
    events, described = features_world()
    model = TINY.with_settings(features=False, epochs=1).learn(events, catalog=described)
    assert not model.config.encoder.has_features
    assert model.vectors().shape == (22, 8)


def test_missing_numbers_are_trained_on_and_infinite_ones_refused():
    events, _ = features_world()
    short = TINY.with_settings(epochs=2)
    years = [float("nan") if row % 3 else 2000.0 + row for row in range(22)]
    model = short.learn(events, catalog=catalog(22, year=years))
    assert model.vectors().isfinite().all()
    years[4] = float("inf")
    with pytest.raises(
        DataError, match=r"item column .year.: expected finite numbers up to .*, got inf in row 4"
    ):
        short.learn(events, catalog=catalog(22, year=years))


def begun(trainer, events):
    """A new model in training, and its batches."""
    torch.manual_seed(0)
    model = trainer.begin(events, None).train()
    return model, OfferBatches.of(events, CPU, trainer.mask_history)


def test_prior_counts_once_for_each_user_and_epoch():
    """Section 1.5: the losses of an epoch, times the events of their batches, add up to weight * |phi|^2 of users."""
    events = log([0, 1, 2, 3, 4, 5, 6], [0, 1], [3], n_items=8)
    zero = TINY.with_settings(prior="zero", prior_weight=0.7, batch_size=4)
    none = zero.with_settings(prior="none")
    model, data = begun(zero, events)
    total = 0.0
    for at in data.positions(0, 0, 4):
        with torch.no_grad():
            one, two = (
                trainer.loss_of(model, data, at, torch.Generator().manual_seed(1)) for trainer in (zero, none)
            )
        total += float(one - two) * len(at)
    assert total == pytest.approx(0.7 * float(model.user_embedding.weight.detach().square().sum()), rel=1e-4)


def test_prior_of_the_mean_follows_the_mean_of_users_and_draws_them_to_it():
    events, _ = random_log(n_users=20, events=2000)
    trainer = TINY.with_settings(prior="mean", prior_weight=50.0, epochs=10, batch_size=100)
    free, drawn = (
        trainer.with_settings(prior=prior).learn(events).user_embedding.weight for prior in ("none", "mean")
    )
    assert drawn.std(0).mean() < 0.5 * free.std(0).mean()
    assert drawn.mean(0).norm() > 2 * drawn.std(0).norm()  # not to zero


def test_prior_pulls_users_with_few_events_more():
    items = np.tile(np.arange(10), 40)
    users = np.where(np.arange(400) < 360, np.arange(400) % 4, 4 + np.arange(400) % 10)
    events = Interactions.of(users, items, n_users=14, n_items=20)
    model = TINY.with_settings(prior="zero", prior_weight=2.0, epochs=40).learn(events)
    size = model.user_embedding.weight.norm(dim=1)
    assert size[4:].mean() < size[:4].mean()


def test_masked_histories_leave_out_the_items_of_the_user():
    events = log([0, 1, 2], [2, 3], n_items=5)
    _, data = begun(TINY.with_settings(mask_history=True), events)
    hidden = data.hidden(torch.tensor([0, 1, 1]))(torch.tensor([4, 2, 0]))
    assert hidden.tolist() == [[False, True, True], [False, True, False], [False, True, False]]
    _, unmasked = begun(TINY, events)
    assert unmasked.hidden(torch.tensor([0])) is None


def test_masked_training_differs_and_is_finite():
    one, two = (TINY.with_settings(epochs=3, mask_history=mask).learn(tastes()) for mask in (True, False))
    assert one.vectors().isfinite().all()
    assert not torch.equal(one.vectors(), two.vectors())


def test_an_epoch_contains_every_event_once_in_an_order_of_its_own():
    events = chains()
    data = OfferBatches.of(events, CPU, mask_history=False)
    orders = [np.concatenate(list(data.positions(3, epoch, 64))) for epoch in (0, 0, 1)]
    assert orders[0].dtype == np.int32
    assert np.array_equal(np.sort(orders[0]), np.arange(len(events)))
    assert np.array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_rows_outside_the_batch_are_bitwise_unchanged_after_a_step():
    """Spec test 15 for the trainer: with features and the prior, through clipping and both optimizers."""
    events, described = features_world()
    trainer = TINY.with_settings(uniform_negatives=0, batch_size=4)
    torch.manual_seed(0)
    model = trainer.begin(events, described).train()
    model.encoder.dropout = 0.0
    before = {name: one.clone() for name, one in model.state_dict().items()}
    optimizer = trainer.optimizer(model)
    (first, *_) = trainer._batches(model, events, 0, CPU)(0)
    first().backward()
    optimizer.step()
    at = next(OfferBatches.of(events, CPU, False).positions(0, 0, 4))
    changed = {
        name: (one != before[name]).any(1).nonzero()[:, 0].tolist()
        for name, one in model.state_dict().items()
        if name in ("user_embedding.weight", "encoder.items.weight")
    }
    assert changed["user_embedding.weight"] == sorted(set(events.users[at].tolist()))
    assert changed["encoder.items.weight"] == sorted(set(events.items[at].tolist()))


def test_weights_multiply_losses():
    events = tastes()
    weights = np.where(np.arange(len(events)) % 2 == 0, 3.0, 1.0)
    heavy = replace(events, weights=weights.astype(np.float32))
    one, two = (TINY.with_settings(epochs=2).learn(given).vectors() for given in (heavy, events))
    assert not torch.equal(one, two)


def test_only_known_users_are_validated_and_without_any_all_epochs_are_run():
    events = tastes()
    more = Interactions.of(events.users, events.items, n_users=60, n_items=20)
    split = leave_last_out(more)
    model = TINY.with_settings(epochs=4).learn(split.train, split.valid)
    assert len(model.validation) == 4
    new = Interactions.of(np.array([50, 50, 51]), np.array([1, 2, 3]), n_users=60, n_items=20)
    strangers = HeldOut(new, np.array([0]), np.array([1]), np.array([2]))
    model = TINY.with_settings(epochs=4, patience=1).learn(split.train, strangers)
    assert list(model.validation) == []
    assert model.summary.epochs == 4


def test_likelihood_is_an_early_stopping_metric():
    split = leave_last_out(tastes())
    model = TINY.with_settings(early_stop_metric="likelihood", epochs=25, patience=3).learn(
        split.train, split.valid
    )
    assert all(0 < value < 1 for value in model.validation)
    assert max(model.validation) > 1 / 20
    with pytest.raises(ConfigError, match="early_stop_metric must be"):
        TINY.with_settings(early_stop_metric="loss")


def test_a_warm_start_has_the_weights_of_the_model_and_the_features_of_its_own_catalogue():
    events, described = features_world()
    trainer = TINY.with_settings(epochs=5)
    first = trainer.learn(events, catalog=described)
    changed = catalog(22, category=["x", "y"] * 11, year=[1.0 * row for row in range(22)])
    again = trainer.with_settings(table_learning_rate=1e-9, learning_rate=1e-9).learn(
        events, catalog=changed, warm=first
    )
    assert torch.allclose(again.user_embedding.weight, first.user_embedding.weight, atol=1e-5)
    assert again.encoder.categories[:, 0].tolist() == [0, 1] * 11
    assert again.encoder.mean.tolist() == [10.5]


def test_popular_items_among_the_candidates_are_reported():
    notes = []

    class Display:
        def __call__(self, task, done, total): ...

        def note(self, task, text):
            notes.append(text)

    events, _ = random_log()
    TINY.with_settings(epochs=1).learn(events, progress=Display())
    assert "of the candidates" in notes[0]
    wide = Interactions.of(np.arange(900) % 30, np.arange(900), n_users=30, n_items=900)
    notes.clear()
    TINY.with_settings(epochs=1).learn(wide, progress=Display())
    assert notes == ["epoch 1 of 1"]


def test_memory_counts_tables_events_and_masks():
    events = Interactions.of(np.arange(1000) % 10, np.arange(1000) % 50, n_users=10, n_items=50)
    tables = 4 * 8 * (10 + 51 + 50)
    assert TINY.size(events, None) >= tables
    need = TINY.memory(events, None)
    assert need > 3 * tables + 4 * 1000
    assert TINY.with_settings(mask_history=True).memory(events, None) >= need + 8 * 1000


def test_recipe_answers_known_users_by_their_id_and_new_users_by_the_mean(world):
    recipe = parse_recipe(
        'pipeline = "known % 20"\n[stages.known]\ntype = "ccf"\n[stages.known.train]\nwidth = 8\nepochs = 3\n'
        'batch_size = 256\nuniform_negatives = 64\ndevice = "cpu"'
    )
    trained = train(recipe, world)
    model = trained.pipeline.nominators[0].model
    users, items = model.user_embedding.weight.detach(), model.vectors()

    def best(vector):
        return set((items @ vector).topk(20).indices.tolist())

    def answer(**request):
        return set(trained.recommend(Request(**request)).items[0].tolist())

    known = [answer(user=world.users.id(row)) for row in (0, 1)]
    assert known == [best(users[0]), best(users[1])]
    assert known[0] != known[1]
    for item in (0, 1):
        assert answer(history=(world.items.id(item),)) == best(model.mean_user)


def test_a_log_without_events_is_a_model_with_finite_scores():
    model = TINY.learn(nothing())
    assert isinstance(model, CCF)
    assert model.config == CCFConfig(3, n_users=2, width=8)
    assert model.scores(torch.tensor([[0]])).isfinite().all()


def test_unknown_prior_is_refused():
    with pytest.raises(ConfigError, match="prior must be one of mean, zero, none, got 'median'"):
        TINY.with_settings(prior="median")
