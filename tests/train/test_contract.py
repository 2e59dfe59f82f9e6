"""Every model with every loss keeps what all models promise; one without small settings here fails, loudly."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from shortlist.data import Query, Split, global_time, half_history
from shortlist.models.model import Model
from shortlist.testing.models import (
    CLOSE,
    check_bad_input_has_an_answer,
    check_better_than_popularity,
    check_company_says_nothing,
    check_little_to_learn_from,
    check_packed_and_unpacked,
    check_padding_says_nothing,
    check_same_bytes_with_the_same_seed,
    check_saved_and_loaded,
    check_what_is_older_than_the_memory_says_nothing,
)
from shortlist.train.models.bert4rec import BERT4RecTrainer
from shortlist.train.models.din import DINTrainer
from shortlist.train.models.ease import EASETrainer
from shortlist.train.models.fmlp import FMLPTrainer
from shortlist.train.models.gru4rec import GRU4RecTrainer
from shortlist.train.models.item_knn import ItemKNNTrainer
from shortlist.train.models.last_click import LastClickTrainer
from shortlist.train.models.lightgcn import LightGCNTrainer
from shortlist.train.models.mf import LOSSES as MF_LOSSES
from shortlist.train.models.mf import MFTrainer
from shortlist.train.models.popular_window import PopularWindowTrainer
from shortlist.train.models.sasrec import SASRecTrainer
from shortlist.train.models.sequence import LOSSES as SEQUENCE_LOSSES
from shortlist.train.models.sum_pooling import SumPoolingTrainer
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.models.youtube_dnn import YouTubeDNNTrainer
from shortlist.train.registry import MODEL_TRAINERS

# Patience is long: on sixty cases to choose by, a lucky early epoch would end a training that has hardly begun.
SEQUENCE: Mapping[str, Any] = {"max_history": 30, "width": 32, "batch_size": 32, "learning_rate": 1e-2, "device": "cpu"}
SASREC: Mapping[str, Any] = {**SEQUENCE, "blocks": 1, "epochs": 20, "patience": 8}
MF: Mapping[str, Any] = {"width": 16, "epochs": 25, "batch_size": 1024, "learning_rate": 2e-2, "device": "cpu"}
SMALL: Mapping[str, Mapping[str, ModelTrainer]] = {  # name -> loss, where there is a choice -> trainer
    "bert4rec": {
        "": BERT4RecTrainer(**SEQUENCE, epochs=50, patience=25, blocks=1, dropout=0.1, mask_share=0.3, mask_last_share=0.3)
    },
    "din": {
        "": DINTrainer(
            width=16,
            hidden=8,
            layers=(32,),
            windows=(10, 5, 2, 1),
            negatives=20,
            epochs=12,
            batch_size=128,
            instances=7000,
            learning_rate=5e-3,
            patience=8,
            device="cpu",
        )
    },
    "ease": {"": EASETrainer(ridge=100.0)},
    "fmlp": {
        "": FMLPTrainer(
            max_history=20,
            width=32,
            blocks=1,
            epochs=15,
            batch_size=128,
            instances=2500,
            learning_rate=1e-2,
            patience=8,
            device="cpu",
        )
    },
    "gru4rec": {"": GRU4RecTrainer(**SEQUENCE, hidden=32, epochs=25, patience=15)},
    "item-knn": {"": ItemKNNTrainer(neighbours=100)},
    "last-click": {"": LastClickTrainer()},
    "lightgcn": {
        "": LightGCNTrainer(width=32, epochs=40, batch_size=1024, learning_rate=1e-2, patience=15, device="cpu"),
    },
    "mf": {
        "bpr": MFTrainer(**MF, loss="bpr"),
        "softmax": MFTrainer(**MF, loss="softmax", negatives=128),
        "ccf": MFTrainer(**MF, loss="ccf", negatives=8),
    },
    "popular-in-window": {"": PopularWindowTrainer()},
    "sasrec": {
        "softmax": SASRecTrainer(**SASREC, loss="softmax"),
        "sampled": SASRecTrainer(**SASREC, loss="sampled", negatives=128),
        "bce": SASRecTrainer(**SASREC, loss="bce", negatives=8),
    },
    "sum-pooling": {"": SumPoolingTrainer(**{**SEQUENCE, "learning_rate": 5e-3}, hidden=32, epochs=20, patience=8)},
    "youtube-dnn": {
        "": YouTubeDNNTrainer(**SEQUENCE, layers=(32,), epochs=40, patience=8, negatives=128),
    },
}
EVERY = [(name, loss) for name in MODEL_TRAINERS for loss in SMALL.get(name, {"no small settings": None})]
COUNTS = {"item-knn", "last-click", "popular-in-window"}  # no products of matrices: not a bit may differ


@pytest.fixture(scope="session", params=EVERY, ids=["-".join(filter(None, one)) for one in EVERY])
def which(request: pytest.FixtureRequest) -> tuple[str, ModelTrainer]:
    name, loss = request.param
    assert name in SMALL, f"{name} has no small settings in {__file__}: give it some that learn in seconds"
    assert type(SMALL[name][loss]) is MODEL_TRAINERS[name]
    return name, SMALL[name][loss]


@pytest.fixture(scope="session")
def name(which) -> str:
    return which[0]


@pytest.fixture(scope="session")
def trainer(which) -> ModelTrainer:
    return which[1]


@pytest.fixture(scope="session")
def split(world) -> Split:
    return half_history(world.events, seed=0, held_out=0.2)


@pytest.fixture(scope="session")
def late(world) -> Split:
    return global_time(world.events)


@pytest.fixture(scope="session")
def model(trainer, split) -> Model:
    return trainer.learn(split.train, split.valid)


@pytest.fixture(scope="session")
def query(split) -> Query:
    """Six people who were never seen, one of them twice as a stranger, and two who were there in training."""
    asked = split.test.query(slice(0, 6), width=60)
    known = torch.from_numpy(split.train.users[[0, -1]].astype("int64"))
    users = torch.cat([asked.user, torch.tensor([-1]), known])
    history = torch.cat([asked.history, asked.history[:1], asked.history[1:3]])
    return Query(users, history, torch.zeros(len(users)), torch.arange(len(users)))


@pytest.fixture(scope="session")
def histories(query) -> list[list[int]]:
    """What these people met, without padding: of different lengths, with repeats, one with one item, one with none."""
    met = [[row for row in history if row >= 0] for history in query.history.tolist()]
    return [[*met[0], *met[0][:3]], met[1][:1], [], met[3][:2], *met[4:]]


@pytest.fixture(scope="session")
def close(name) -> float:
    return 0.0 if name in COUNTS else CLOSE


def test_every_model_and_every_loss_is_asked():
    assert set(SMALL) == set(MODEL_TRAINERS)
    assert set(SMALL["sasrec"]) == set(SEQUENCE_LOSSES)
    assert set(SMALL["mf"]) == set(MF_LOSSES)
    for name, loss in EVERY:
        assert getattr(SMALL[name][loss], "loss", loss) == loss or not loss


def test_it_is_better_than_popularity(name, trainer, model, split, late):
    if name == "popular-in-window":
        # Half histories end all over the log: what is popular on its last days was not there yet for most. It knows
        # when it is, and is asked for the days after its window.
        model, split = trainer.learn(late.train), late
    check_better_than_popularity(model, split)


def test_the_same_seed_gives_the_same_bytes(trainer, split):
    check_same_bytes_with_the_same_seed(trainer, split.train, split.valid)


def test_saved_in_a_bundle_and_loaded_it_gives_the_same_scores(name, trainer, world, tmp_path):
    check_saved_and_loaded(trainer, name, world, tmp_path / "bundle")


def test_packed_and_unpacked_it_gives_the_same_scores(model, query):
    check_packed_and_unpacked(model, query)


def test_padding_does_not_change_a_score(model, query, histories, close):
    check_padding_says_nothing(model, histories, query.user, close)


def test_who_else_is_asked_for_does_not_change_a_score(model, query, histories, close):
    check_company_says_nothing(model, histories, query.user, close)


def test_what_is_older_than_the_memory_does_not_change_a_score(model):
    check_what_is_older_than_the_memory_says_nothing(model)


def test_bad_input_has_a_defined_answer(name, model, split, close):
    check_bad_input_has_an_answer(model, split.train.n_users, close, reads=name != "popular-in-window")


def test_next_to_nothing_to_learn_from_is_enough(trainer):
    check_little_to_learn_from(trainer)
