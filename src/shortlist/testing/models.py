"""What every model of the catalogue promises, one check for each promise; who writes a new model runs them all."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_tensors
from torch import Tensor

from shortlist.data import Dataset, HeldOut, Interactions, Query, Split
from shortlist.evaluate.rank_model import rank_model
from shortlist.metrics.ranking import METRICS
from shortlist.models.counts.popular_window import PopularWindow
from shortlist.models.model import Model
from shortlist.models.registry import model_name, packed, unpacked
from shortlist.pipeline import Recommender, load_recommender
from shortlist.pipeline.recipe import Recipe, StageConfig, parse_recipe, to_toml
from shortlist.progress import silent
from shortlist.train.bundle import train_bundle
from shortlist.train.models.trainer import ModelTrainer

CLOSE = 1e-5  # the sums of a wider batch are made in another order
AT_MOST = 10_050  # events that a history in these checks has

Histories = Sequence[Sequence[int]]


def check_better_than_popularity(model: Model, split: Split) -> None:
    """Asked for the same people, it finds more than what everybody took."""
    events = torch.from_numpy(split.train.popularity.copy())
    popular = recall_of(PopularWindow.of(events, events), split.test)
    assert recall_of(model, split.test) > popular


def recall_of(model: Model, cases: HeldOut, k: int = 20) -> float:
    """The mean recall@k over cases."""
    return float(METRICS["recall"](rank_model(model, cases, k), cases.relevant(), k).nanmean())


def check_same_bytes_with_the_same_seed(trainer: ModelTrainer, events: Interactions, valid: HeldOut) -> None:
    """The seed alone decides, not what was drawn before; another one gives others where anything is drawn at all."""
    short = shortened(trainer, 2)
    one = bytes_of(short.learn(events, valid, seed=5))
    torch.rand(7)
    np.random.default_rng(0).random()
    assert bytes_of(short.learn(events, valid, seed=5)) == one
    if learns_in_epochs(trainer):
        assert bytes_of(short.learn(events, valid, seed=6)) != one


def check_saved_and_loaded(trainer: ModelTrainer, name: str, world: Dataset, folder: Path) -> None:
    """Through a bundle on disk and back: the same scores to the last bit, and the same slates."""
    trained, _ = train_bundle(recipe_of(shortened(trainer, 1), name), world, folder, 3, silent)
    loaded = load_recommender(folder)
    before, after = model_in(trained), model_in(loaded)
    assert type(before) is type(after)
    query = world.split().test.query(width=40)
    check_same_scores(before, after, query)
    ours, theirs = (one.pipeline.nominators[0].nominate(query) for one in (trained, loaded))
    assert torch.equal(ours.items, theirs.items)
    assert torch.equal(ours.scores, theirs.scores)


def check_packed_and_unpacked(model: Model, query: Query) -> None:
    """As tensors and back: of the same kind, in eval, and with the same scores to the last bit."""
    again = unpacked(packed(model))
    assert model_name(again) == model_name(model)
    assert again.settings() == model.settings()
    assert not again.training
    check_same_scores(model, again, query)


@torch.no_grad()
def check_same_scores(one: Model, two: Model, query: Query) -> None:
    """Both say the same of everybody, also of nobody."""
    nobody = torch.empty(1, 0, dtype=torch.int64)
    assert torch.equal(one.scores(query.history, query.user), two.scores(query.history, query.user))
    assert torch.equal(one.scores(query.history), two.scores(query.history))
    assert torch.equal(one.scores(nobody), two.scores(nobody))


@torch.no_grad()
def check_padding_says_nothing(model: Model, histories: Histories, users: Tensor, close: float) -> None:
    """Padding in front, behind and in between, and rows that are no items, are as if they were not there."""
    random = np.random.default_rng(0)
    n_items = model.config.n_items
    for history, user in zip(histories, users, strict=True):
        bare = model.scores(rows_of(history), user[None])
        for wide in (1, 5, 90):
            nothing = [-1] * wide
            for padded in (
                [*nothing, *history],
                [*history, *nothing],
                strewn(history, nothing, random),
                strewn(history, [n_items, n_items + 7, 2**40, -2, -(2**40)] * wide, random),
            ):
                check_close(model.scores(rows_of(padded), user[None]), bare, close)


@torch.no_grad()
def check_company_says_nothing(model: Model, histories: Histories, users: Tensor, close: float) -> None:
    """A score is the same alone, with others, among others in another order, and next to much longer histories."""
    widest = max(len(history) for history in histories)
    batch = torch.cat([rows_of([-1] * (widest - len(history)) + list(history)) for history in histories])
    alone = torch.cat(
        [model.scores(rows_of(one), user[None]) for one, user in zip(histories, users, strict=True)]
    )
    check_close(model.scores(batch, users), alone, close)
    check_close(model.scores(batch.flip(0), users.flip(0)).flip(0), alone, close)
    check_close(model.scores(batch[::2], users[::2]), alone[::2], close)
    long = torch.randint(0, model.config.n_items, (1, 3 * widest), generator=torch.Generator().manual_seed(0))
    beside = torch.cat([torch.nn.functional.pad(batch, (2 * widest, 0), value=-1), long])
    asked = torch.cat([users, torch.tensor([-1])])
    check_close(model.scores(beside, asked)[:-1], alone, close)


@torch.no_grad()
def check_what_is_older_than_the_memory_says_nothing(model: Model) -> None:
    """Of a history longer than the memory the end alone counts, to the last bit."""
    max_history = model.config.max_history
    assert max_history < AT_MOST
    long = torch.randint(
        0, model.config.n_items, (2, max_history + 7), generator=torch.Generator().manual_seed(1)
    )
    assert torch.equal(model.scores(long), model.scores(long[:, -max_history:]))


@torch.no_grad()
def check_bad_input_has_an_answer(model: Model, n_users: int, close: float, reads: bool = True) -> None:
    """Nothing, only padding, unknown items or people: finite scores, the same as for one of whom nothing is known.

    A model that `reads` histories answers one item differently from nothing.
    """
    n_items = model.config.n_items
    nothing = check_scores(model, rows_of([]))
    unknown = ([-1], [-1] * 30, [n_items], [n_items + 1, -1, 2**40], [-7, -(2**40)], [n_items] * 200)
    for history in unknown:
        check_close(check_scores(model, rows_of(history)), nothing, close)
    for history in ([0], [n_items - 1], [0] * 5, [*range(n_items)] * 2):
        own = check_scores(model, rows_of(history))
        assert torch.allclose(own, nothing, rtol=0, atol=1e-7) != reads
        for stranger in (-1, n_users, n_users + 2**40, -(2**40)):
            assert torch.equal(check_scores(model, rows_of(history), torch.tensor([stranger])), own)
    assert torch.equal(check_scores(model, rows_of([]), torch.tensor([-1])), nothing)
    for user in (0, n_users - 1):
        check_scores(model, rows_of([]), torch.tensor([user]))
    for width in (0, 3):  # nobody is asked for
        none = torch.empty(0, width, dtype=torch.int64)
        check_scores(model, none)
        check_scores(model, none, torch.empty(0, dtype=torch.int64))


def check_little_to_learn_from(trainer: ModelTrainer) -> None:
    """No event, no item, one event of one user, one item that everybody met: a model that answers all the same."""
    short = shortened(trainer, 2)
    for n_users, n_items in ((2, 3), (0, 3), (2, 0), (0, 0)):
        _check_answers(short.learn(events_of([], [], n_users, n_items)), n_items)
    _check_answers(short.learn(events_of([1], [2], 3, 4)), 4)
    _check_answers(short.learn(events_of([0], [0], 1, 1)), 1)
    _check_answers(short.learn(events_of([0, 0, 0, 1, 2], [0] * 5, 3, 1)), 1)
    _check_answers(short.learn(events_of([0, 0, 1, 1], [0, 1, 0, 1], 2, 2)), 2)  # everybody met everything


def _check_answers(model: Model, n_items: int) -> None:
    assert not model.training
    assert model.config.n_items == n_items
    for history in ([], [-1, -1], [0], [n_items, 0], [0] * 100):
        for user in (None, torch.tensor([-1]), torch.tensor([0]), torch.tensor([99])):
            check_scores(model, rows_of(history), user)


@torch.no_grad()
def check_scores(model: Model, history: Tensor, user: Tensor | None = None) -> Tensor:
    """The scores, after a look at their shape, their type and that they are numbers."""
    scores = model.scores(history, user)
    assert scores.shape == (len(history), model.config.n_items)
    assert scores.dtype == torch.float32
    assert scores.isfinite().all()
    return scores


def check_close(one: Tensor, two: Tensor, close: float) -> None:
    """Equal within a tolerance, absolute for small numbers and relative for large ones; 0 is to the last bit."""
    torch.testing.assert_close(one, two, rtol=close, atol=close)


def learns_in_epochs(trainer: ModelTrainer) -> bool:
    """Whether it goes over the events again and again, which takes chance; others count."""
    return "epochs" in {field.name for field in fields(trainer)}


def shortened(trainer: ModelTrainer, epochs: int) -> ModelTrainer:
    """The same trainer in a hurry."""
    hurry: dict[str, Any] = {"epochs": epochs, "instances": 1000}
    return replace(trainer, **{name: hurry[name] for name in hurry if hasattr(trainer, name)})


def recipe_of(trainer: ModelTrainer, name: str) -> Recipe:
    """A recipe, read from its TOML, in which the model nominates."""
    ways = {key: list(one) if isinstance(one, tuple) else one for key, one in asdict(trainer).items()}
    stages = {"model": StageConfig(name, {"exclude_seen": True}, ways)}
    return parse_recipe(to_toml(Recipe("contract", "model % 20", stages)), "contract.toml")


def model_in(recommender: Recommender) -> Model:
    """The model of the only nominator."""
    (nominator,) = recommender.pipeline.nominators
    model: Model = nominator.model  # type: ignore[attr-defined]
    return model


def bytes_of(model: Model) -> bytes:
    """All that there is to a model, as it would lie on disk."""
    blob: bytes = save_tensors(packed(model))
    return blob


def rows_of(history: Sequence[int]) -> Tensor:
    """One history as a batch [1, K]."""
    return torch.tensor(history, dtype=torch.int64).reshape(1, -1)


def strewn(history: Sequence[int], others: Sequence[int], random: np.random.Generator) -> list[int]:
    """A history with other rows at places by lot, its own still in their order."""
    places = np.sort(random.choice(len(history) + len(others), len(history), replace=False))
    mixed = np.empty(len(history) + len(others), np.int64)
    mixed[places] = history
    mixed[np.setdiff1d(np.arange(len(mixed)), places)] = others
    return [int(row) for row in mixed]


def events_of(users: Sequence[int], items: Sequence[int], n_users: int, n_items: int) -> Interactions:
    """A log of a few events."""
    return Interactions.of(np.array(users, int), np.array(items, int), n_users=n_users, n_items=n_items)
