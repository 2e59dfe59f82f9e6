"""Every model with every loss keeps the contract of models; a model without small settings here fails."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from shortlist.data import Dataset, Query, Split, half_history, leave_last_out
from shortlist.models.model import Model
from shortlist.models.registry import MODELS
from shortlist.testing import check_better_than_popularity
from shortlist.testing.models import (
    TOLERANCE,
    check_batch_is_ignored,
    check_invalid_input_has_scores,
    check_model,
    check_model_trainer,
    check_only_max_history_counts,
    check_packing,
    check_padding_is_ignored,
    check_same_seed_gives_same_weights,
    check_saved_and_loaded,
    check_tiny_logs_can_be_trained_on,
)
from shortlist.train.models.mf import LOSSES as MF_LOSSES
from shortlist.train.models.sequence import LOSSES as SEQUENCE_LOSSES
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer

Settings = Mapping[str, Any]

# Patience is long: with sixty validation users a lucky early epoch would stop training too soon.
SEQUENCE: Settings = {
    "max_history": 30,
    "width": 32,
    "batch_size": 32,
    "learning_rate": 1e-2,
    "device": "cpu",
}
SASREC: Settings = {**SEQUENCE, "blocks": 1, "epochs": 20, "patience": 8}
MF: Settings = {"width": 16, "epochs": 25, "batch_size": 1024, "learning_rate": 2e-2, "device": "cpu"}
WINDOW: Settings = {"batch_size": 128, "patience": 8, "device": "cpu"}
SMALL: Mapping[str, Mapping[str, Settings]] = {  # model -> loss, where there is a choice -> settings
    "bert4rec": {
        "": {
            **SEQUENCE,
            "epochs": 50,
            "patience": 25,
            "blocks": 1,
            "dropout": 0.1,
            "mask_share": 0.3,
            "mask_last_share": 0.3,
        }
    },
    "ccf": {"": {"width": 16, "epochs": 25, "batch_size": 256, "uniform_negatives": 64, "device": "cpu"}},
    "din": {
        "": {
            **WINDOW,
            "width": 16,
            "hidden": 8,
            "layers": (32,),
            "windows": (10, 5, 2, 1),
            "negatives": 20,
            "epochs": 12,
            "instances": 4000,
            "learning_rate": 5e-3,
        }
    },
    "ease": {"": {"ridge": 100.0}},
    "fmlp": {
        "": {
            **WINDOW,
            "max_history": 20,
            "width": 32,
            "blocks": 1,
            "epochs": 15,
            "instances": 2500,
            "learning_rate": 1e-2,
        }
    },
    "gru4rec": {"": {**SEQUENCE, "hidden": 32, "epochs": 25, "patience": 15}},
    "item-knn": {"": {"neighbours": 100}},
    "last-click": {"": {}},
    "lightgcn": {
        "": {
            "width": 32,
            "epochs": 40,
            "batch_size": 1024,
            "learning_rate": 1e-2,
            "patience": 15,
            "device": "cpu",
        },
    },
    "mf": {
        "bpr": {**MF, "loss": "bpr"},
        "softmax": {**MF, "loss": "softmax", "negatives": 128},
        "ccf": {**MF, "loss": "ccf", "negatives": 8},
    },
    "sasrec": {
        "softmax": {**SASREC, "loss": "softmax"},
        "sampled": {**SASREC, "loss": "sampled", "negatives": 128},
        "bce": {**SASREC, "loss": "bce", "negatives": 8},
    },
    "sum-pooling": {"": {**SEQUENCE, "learning_rate": 5e-3, "hidden": 32, "epochs": 20, "patience": 8}},
    "two-time-scale": {
        loss: {
            "width": 16,
            "epochs": 12,
            "first_epochs": 8,
            "batch_size": 512,
            "learning_rate": 1e-2,
            "threshold": 15,
            "last": 5,
            "max_history": 60,
            "loss": loss,
            "device": "cpu",
        }
        for loss in ("softmax", "offers")
    },
    "two-tower": {"": {"width": 32, "hidden": 32, "epochs": 15, "batch_size": 128, "patience": 8}},
    "youtube-dnn": {"": {**SEQUENCE, "layers": (32,), "epochs": 40, "patience": 8, "negatives": 128}},
}
EVERY = [(name, loss) for name in MODELS for loss in SMALL.get(name, {"no small settings": None})]
COUNTS = {"item-knn", "last-click"}  # no matrix products: scores are exactly equal
OF_KNOWN_USERS = {"ccf"}  # users without training events all have the same scores


@pytest.fixture(scope="session", params=EVERY, ids=["-".join(filter(None, one)) for one in EVERY])
def which(request: pytest.FixtureRequest) -> tuple[str, ModelTrainer]:
    name, loss = request.param
    assert name in SMALL, f"{name} has no small settings in {__file__}: add some that train in seconds"
    return name, make_trainer(name, **SMALL[name][loss])


@pytest.fixture(scope="session")
def name(which) -> str:
    return which[0]


@pytest.fixture(scope="session")
def trainer(which) -> ModelTrainer:
    return which[1]


@pytest.fixture(scope="session")
def split(name, world) -> Split:
    return leave_last_out(world.events) if name in OF_KNOWN_USERS else new_users(world)


def new_users(world: Dataset) -> Split:
    return half_history(world.events, seed=0, held_out=0.2)


@pytest.fixture(scope="session")
def model(trainer, split) -> Model:
    return trainer.learn(split.train, split.valid)


@pytest.fixture(scope="session")
def query(split) -> Query:
    return query_of(split)


def query_of(split: Split) -> Query:
    """Six users of the test requests, one of them again as an unknown user, and two users of the training data."""
    asked = split.test.query(slice(0, 6), width=60)
    known = torch.from_numpy(split.train.users[[0, -1]].astype("int64"))
    users = torch.cat([asked.user, torch.tensor([-1]), known])
    history = torch.cat([asked.history, asked.history[:1], asked.history[1:3]])
    return Query(users, history, torch.zeros(len(users)), torch.arange(len(users)))


@pytest.fixture(scope="session")
def histories(query) -> list[list[int]]:
    """The histories without padding: of different lengths, with repeats, one with one item, one empty."""
    items = [[row for row in history if row >= 0] for history in query.history.tolist()]
    return [[*items[0], *items[0][:3]], items[1][:1], [], items[3][:2], *items[4:]]


@pytest.fixture(scope="session")
def tolerance(name) -> float:
    return 0.0 if name in COUNTS else TOLERANCE


def test_every_model_and_every_loss_has_small_settings():
    assert set(SMALL) == set(MODELS)
    assert set(SMALL["sasrec"]) == set(SEQUENCE_LOSSES) - {
        "auto"
    }  # one of the others, by the size of the data
    assert set(SMALL["mf"]) == set(MF_LOSSES)


def test_model_is_better_than_popularity(model, split):
    check_better_than_popularity(model, split)


def test_same_seed_gives_the_same_weights(trainer, split):
    check_same_seed_gives_same_weights(trainer, split.train, split.valid)


def test_saved_and_loaded_bundle_has_the_same_scores(name, trainer, world, tmp_path):
    check_saved_and_loaded(trainer, name, world, tmp_path / "bundle")


def test_model_rebuilt_from_its_tensors_has_the_same_scores(model, query):
    check_packing(model, query)


def test_padding_does_not_change_a_score(model, query, histories, tolerance):
    check_padding_is_ignored(model, histories, query.user, tolerance)


def test_rest_of_the_batch_does_not_change_a_score(model, query, histories, tolerance):
    check_batch_is_ignored(model, histories, query.user, tolerance)


def test_events_before_max_history_do_not_change_a_score(model):
    check_only_max_history_counts(model)


def test_invalid_input_has_finite_scores(model, split, tolerance):
    check_invalid_input_has_scores(model, split.train.n_users, tolerance)


def test_tiny_logs_can_be_trained_on(trainer):
    check_tiny_logs_can_be_trained_on(trainer)


def test_the_public_checks_run_all_of_these(world):
    trainer, split = make_trainer("item-knn", neighbours=5), new_users(world)
    check_model_trainer(trainer, split)
    check_model(trainer.learn(split.train), query_of(split), split.train.n_users, tolerance=0.0)
