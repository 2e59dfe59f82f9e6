"""Contract checks of models and their trainers: one function per promise, and two that run them all.

from shortlist.testing import check_model, check_model_trainer

check_model_trainer(make_trainer("mine", epochs=2), split)
check_model(model, split.test.query(slice(0, 6)), n_users=split.train.n_users)
"""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from torch import Tensor

from shortlist.data import Candidates, Dataset, HeldOut, Interactions, Query, Split
from shortlist.evaluate.full_catalog import rank_model
from shortlist.metrics.ranking import METRICS
from shortlist.models.model import Model, ModelConfig
from shortlist.models.registry import model_name, packed, unpacked
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.recipe import Recipe, StageConfig, parse_recipe, to_toml
from shortlist.train import train
from shortlist.train.models.trainer import ModelTrainer

TOLERANCE = 1e-5  # a matrix product of another shape adds in another order
LONGEST = 10_050  # events of the longest history in these checks

Histories = Sequence[Sequence[int]]


def check_model(model: Model, query: Query, n_users: int, tolerance: float = TOLERANCE) -> None:
    """All promises of a trained model in eval mode; `query` has requests of different lengths."""
    histories = [[row for row in history if row >= 0] for history in query.history.tolist()]
    check_packing(model, query)
    check_padding_is_ignored(model, histories, query.user, tolerance)
    check_batch_is_ignored(model, histories, query.user, tolerance)
    check_only_max_history_counts(model)
    check_invalid_input_has_scores(model, n_users, tolerance)


def check_model_trainer(trainer: ModelTrainer, split: Split) -> None:
    """All promises of a trainer of models that need no bundle."""
    check_same_seed_gives_same_weights(trainer, split.train, split.valid)
    check_tiny_logs_can_be_trained_on(trainer)


def check_better_than_popularity(model: Model, split: Split) -> None:
    """The model has a higher recall@20 on the test users than popularity."""
    popularity = _Popularity(split.train)
    assert recall_of(model, split.test) > recall_of(popularity, split.test)


def recall_of(model: Model, held_out: HeldOut, k: int = 20) -> float:
    """Mean recall@k over held-out users."""
    return float(METRICS["recall"](rank_model(model, held_out, k), held_out.relevant(), k).nanmean())


def check_same_seed_gives_same_weights(trainer: ModelTrainer, events: Interactions, valid: HeldOut) -> None:
    """Weights depend on the seed and not on earlier random numbers; without epochs they do not depend on the seed."""
    short = shortened(trainer, 2)
    first = bytes_of(short.learn(events, valid, seed=5))
    torch.rand(7)
    np.random.default_rng(0).random()
    assert bytes_of(short.learn(events, valid, seed=5)) == first
    if has_epochs(trainer):
        assert bytes_of(short.learn(events, valid, seed=6)) != first


def check_saved_and_loaded(trainer: ModelTrainer, name: str, world: Dataset, folder: Path) -> None:
    """A bundle that was saved and loaded has exactly the same scores and candidates."""
    trained = train(recipe_of(shortened(trainer, 1), name), world, folder, seed=3)
    loaded = load_recommender(folder)
    before, after = model_in(trained), model_in(loaded)
    assert type(before) is type(after)
    query = world.split().test.query(width=40)
    check_same_scores(before, after, query)
    ours, theirs = (candidates_of(one, query) for one in (trained, loaded))
    assert torch.equal(ours.items, theirs.items)
    assert torch.equal(ours.scores, theirs.scores)


def check_packing(model: Model, query: Query) -> None:
    """A model rebuilt from its tensors has the same type and settings, is in eval mode and has the same scores."""
    again = unpacked(packed(model))
    assert model_name(type(again)) == model_name(type(model))
    assert again.settings() == model.settings()
    assert not again.training
    check_same_scores(model, again, query)


@torch.no_grad()
def check_same_scores(one: Model, two: Model, query: Query) -> None:
    """Two models have exactly the same scores, also for an empty history."""
    empty = torch.empty(1, 0, dtype=torch.int64)
    assert torch.equal(one.scores(query.history, query.user), two.scores(query.history, query.user))
    assert torch.equal(one.scores(query.history), two.scores(query.history))
    assert torch.equal(one.scores(empty), two.scores(empty))


@torch.no_grad()
def check_padding_is_ignored(model: Model, histories: Histories, users: Tensor, tolerance: float) -> None:
    """Padding before, behind and between the items, and rows that are no items, change no score."""
    random = np.random.default_rng(0)
    n_items = model.config.n_items
    for history, user in zip(histories, users, strict=True):
        expected = model.scores(rows_of(history), user[None])
        for width in (1, 5, 90):
            padding = [-1] * width
            for padded in (
                [*padding, *history],
                [*history, *padding],
                interleaved(history, padding, random),
                interleaved(history, [n_items, n_items + 7, 2**40, -2, -(2**40)] * width, random),
            ):
                check_close(model.scores(rows_of(padded), user[None]), expected, tolerance)


@torch.no_grad()
def check_batch_is_ignored(model: Model, histories: Histories, users: Tensor, tolerance: float) -> None:
    """A score is the same alone, in a batch, in a batch of another order, and next to much longer histories."""
    longest = max(len(history) for history in histories)
    batch = torch.cat([rows_of([-1] * (longest - len(history)) + list(history)) for history in histories])
    alone = torch.cat(
        [model.scores(rows_of(history), user[None]) for history, user in zip(histories, users, strict=True)]
    )
    check_close(model.scores(batch, users), alone, tolerance)
    check_close(model.scores(batch.flip(0), users.flip(0)).flip(0), alone, tolerance)
    check_close(model.scores(batch[::2], users[::2]), alone[::2], tolerance)
    generator = torch.Generator().manual_seed(0)
    long = torch.randint(0, model.config.n_items, (1, 3 * longest), generator=generator)
    wide = torch.cat([torch.nn.functional.pad(batch, (2 * longest, 0), value=-1), long])
    check_close(model.scores(wide, torch.cat([users, torch.tensor([-1])]))[:-1], alone, tolerance)


@torch.no_grad()
def check_only_max_history_counts(model: Model) -> None:
    """Events before the last `max_history` change nothing."""
    max_history = model.config.max_history
    assert max_history < LONGEST
    generator = torch.Generator().manual_seed(1)
    long = torch.randint(0, model.config.n_items, (2, max_history + 7), generator=generator)
    assert torch.equal(model.scores(long), model.scores(long[:, -max_history:]))


@torch.no_grad()
def check_invalid_input_has_scores(model: Model, n_users: int, tolerance: float = TOLERANCE) -> None:
    """Empty histories, padding and unknown items or users have finite scores, those of an empty history.

    A history of one item has other scores than an empty one, if the model reads histories.
    """
    n_items = model.config.n_items
    empty = check_scores(model, rows_of([]))
    unknown = ([-1], [-1] * 30, [n_items], [n_items + 1, -1, 2**40], [-7, -(2**40)], [n_items] * 200)
    for history in unknown:
        check_close(check_scores(model, rows_of(history)), empty, tolerance)
    for history in ([0], [n_items - 1], [0] * 5, [*range(n_items)] * 2):
        own = check_scores(model, rows_of(history))
        assert torch.allclose(own, empty, rtol=0, atol=1e-7) != model.reads_history
        for user in (-1, n_users, n_users + 2**40, -(2**40)):
            assert torch.equal(check_scores(model, rows_of(history), torch.tensor([user])), own)
    assert torch.equal(check_scores(model, rows_of([]), torch.tensor([-1])), empty)
    for user in (0, n_users - 1):
        check_scores(model, rows_of([]), torch.tensor([user]))
    for width in (0, 3):  # a batch without requests
        none = torch.empty(0, width, dtype=torch.int64)
        check_scores(model, none)
        check_scores(model, none, torch.empty(0, dtype=torch.int64))


def check_tiny_logs_can_be_trained_on(trainer: ModelTrainer) -> None:
    """No events, no items, one event, or one item that every user has: scores are still finite."""
    short = shortened(trainer, 2)
    for n_users, n_items in ((2, 3), (0, 3), (2, 0), (0, 0)):
        _check_answers(short.learn(events_of([], [], n_users, n_items)), n_items)
    _check_answers(short.learn(events_of([1], [2], 3, 4)), 4)
    _check_answers(short.learn(events_of([0], [0], 1, 1)), 1)
    _check_answers(short.learn(events_of([0, 0, 0, 1, 2], [0] * 5, 3, 1)), 1)
    _check_answers(short.learn(events_of([0, 0, 1, 1], [0, 1, 0, 1], 2, 2)), 2)  # no negatives exist


def _check_answers(model: Model, n_items: int) -> None:
    assert not model.training
    assert model.config.n_items == n_items
    for history in ([], [-1, -1], [0], [n_items, 0], [0] * 100):
        for user in (None, torch.tensor([-1]), torch.tensor([0]), torch.tensor([99])):
            check_scores(model, rows_of(history), user)


@torch.no_grad()
def check_scores(model: Model, history: Tensor, user: Tensor | None = None) -> Tensor:
    """The scores, after checks of shape, type and finiteness."""
    scores = model.scores(history, user)
    assert scores.shape == (len(history), model.config.n_items)
    assert scores.dtype == torch.float32
    assert scores.isfinite().all()
    return scores


def check_close(one: Tensor, two: Tensor, tolerance: float) -> None:
    """Equal within a relative and absolute tolerance; 0 means exactly equal."""
    torch.testing.assert_close(one, two, rtol=tolerance, atol=tolerance)


class _Popularity(Model):
    """Scores items by their number of events."""

    def __init__(self, events: Interactions) -> None:
        super().__init__(ModelConfig(events.n_items))
        self.register_buffer("counts", torch.from_numpy(events.popularity.copy()).float())

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        counts: Tensor = self.counts  # type: ignore[assignment]
        return counts.repeat(len(history), 1)


def has_epochs(trainer: ModelTrainer) -> bool:
    """Whether it trains in epochs, which needs random numbers; the others count or solve."""
    return "epochs" in {field.name for field in fields(trainer)}


def shortened(trainer: ModelTrainer, epochs: int) -> ModelTrainer:
    """The same trainer with fewer epochs and examples."""
    few = {"epochs": epochs, "instances": 1000}
    return trainer.with_settings(**{name: few[name] for name in few if hasattr(trainer, name)})


def recipe_of(trainer: ModelTrainer, name: str) -> Recipe:
    """A recipe, parsed from TOML, with the model as its only nominator."""
    settings = {key: list(one) if isinstance(one, tuple) else one for key, one in trainer.settings().items()}
    stages = {"model": StageConfig(name, {"exclude_seen": True}, settings)}
    return parse_recipe(to_toml(Recipe("contract", "model % 20", stages)), "contract.toml")


def model_in(recommender: Recommender) -> Model:
    """The model of the only nominator."""
    (nominator,) = recommender.pipeline.nominators
    model: Model = nominator.model  # type: ignore[attr-defined]
    return model


def candidates_of(recommender: Recommender, query: Query) -> Candidates:
    """The candidates of the only nominator."""
    (nominator,) = recommender.pipeline.nominators
    return nominator(query, Candidates.none(len(query)))


def bytes_of(model: Model) -> bytes:
    """A model as it is stored in an artifact."""
    blob: bytes = save_tensors(packed(model))
    return blob


def rows_of(history: Sequence[int]) -> Tensor:
    """One history as a batch [1, K]."""
    return torch.tensor(history, dtype=torch.int64).reshape(1, -1)


def interleaved(history: Sequence[int], others: Sequence[int], random: np.random.Generator) -> list[int]:
    """A history with other rows at random positions; its own rows keep their order."""
    places = np.sort(random.choice(len(history) + len(others), len(history), replace=False))
    mixed = np.empty(len(history) + len(others), np.int64)
    mixed[places] = history
    mixed[np.setdiff1d(np.arange(len(mixed)), places)] = others
    return [int(row) for row in mixed]


def events_of(users: Sequence[int], items: Sequence[int], n_users: int, n_items: int) -> Interactions:
    """A log of a few events."""
    return Interactions.of(np.array(users, int), np.array(items, int), n_users=n_users, n_items=n_items)
