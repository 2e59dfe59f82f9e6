from dataclasses import dataclass, field, replace

import pytest
import torch
from torch import nn

from shortlist.errors import ConfigError, MissingExtraError
from shortlist.models.model import Model, ModelConfig
from shortlist.pipeline import parse_recipe
from shortlist.pipeline.recommender import Request
from shortlist.testing.stages import check_stage
from shortlist.train import TrainContext, train
from shortlist.train.models import trainer as models
from shortlist.train.models.ease import EASETrainer
from shortlist.train.models.item_knn import ItemKNNTrainer
from shortlist.train.models.trainer import ModelTrainer, unwatched
from shortlist.train.registry import MODEL_TRAINERS

SMALL = {
    "bert4rec": "width = 8\nheads = 1\nmemory = 10",
    "din": "width = 8\nhidden = 8\nlayers = [8]\nwindows = [4, 1, 1]\ninstances = 300",
    "fmlp": "width = 8\nmemory = 10\ninstances = 300",
    "gru4rec": "width = 8\nhidden = 8\nmemory = 10",
    "lightgcn": "width = 8\nhops = 1\nbatch = 2000",
    "mf": 'width = 8\nbatch = 2000\nloss = "bpr"',
    "sasrec": 'width = 8\nheads = 1\nmemory = 10\nloss = "sampled"\nnegatives = 8',
    "sum-pooling": "width = 8\nhidden = 8\nmemory = 10",
    "youtube-dnn": "width = 8\nlayers = [8]\nmemory = 10\nnegatives = 8",
    "ease": "ridge = 10.0",
    "item-knn": "neighbours = 5",
    "last-click": "neighbours = 5",
    "popular-in-window": "days = 10.0",
}
COUNTED = ("ease", "item-knn", "last-click", "popular-in-window")


class Table(Model):
    def __init__(self, n_items):
        super().__init__(ModelConfig(n_items))
        self.worth = nn.Parameter(torch.arange(float(n_items)))

    def scores(self, history, user=None):
        return self.worth.expand(len(history), -1).detach()


@dataclass(frozen=True)
class TableTrainer(ModelTrainer):
    """Its judge says what it is told to."""

    epochs: int = 10
    patience: int = 2
    judged: tuple[float, ...] = (0.1, 0.3, 0.2, 0.2)
    asked: list = field(default_factory=list)

    def learn(self, events, valid=None, seed=0, progress=None, watch=unwatched):
        self.asked.append((events, valid, seed, progress))
        model = Table(events.n_items)
        model.judged = self.judged
        return model.eval()


@pytest.fixture
def context(world):
    """Material that remembers what it is told."""
    split, heard = world.split(), {}
    given = TrainContext(
        split.train,
        world.catalog,
        seed=3,
        valid=split.valid,
        note=lambda name, facts: heard.update({name: facts}),
    )
    return given, heard


def test_a_model_becomes_a_nominator_that_names_what_it_scores_best(context, world):
    given, _ = context
    trainer = TableTrainer()
    stage = trainer.fit({"name": "table", "limit": 3, "exclude_seen": True}, given)
    assert trainer.asked == [(given.events, given.valid, 3, given.progress)]
    best = len(world.items) - 1
    query = world.split().test.query(slice(0, 1))
    query = replace(query, history=torch.tensor([[best - 1]]))
    assert stage.nominate(query).items.tolist() == [[best, best - 2, best - 3]]
    check_stage(stage, len(world.items))


@pytest.mark.parametrize(
    ("judged", "expected"),
    [((0.1, 0.3, 0.2, 0.2), True), (tuple(0.1 * at for at in range(10)), False), ((), None)],
)
def test_whether_it_was_done_is_noted_under_the_name_of_the_stage(context, judged, expected):
    given, heard = context
    TableTrainer(judged=judged).fit({"name": "table"}, given)
    (told,) = heard.values()
    assert set(heard) == {"table"}
    assert told["converged"] is expected
    assert told["most"] == 10
    assert told["epochs"] == (len(judged) or 10)
    assert told["judged"] == list(judged)


@pytest.mark.parametrize("trainer", [EASETrainer(), ItemKNNTrainer()])
def test_who_counts_has_nothing_to_note(context, trainer):
    given, heard = context
    trainer.fit({"name": "counted"}, given)
    assert heard == {}


@pytest.mark.parametrize("kind", sorted(MODEL_TRAINERS))
def test_who_learns_in_epochs_is_known_by_it(kind):
    """`fit` notes the course of those that have epochs, and each of them has a patience."""
    trainer = MODEL_TRAINERS[kind]()
    assert hasattr(trainer, "epochs") == hasattr(trainer, "patience") == (kind not in COUNTED)


def test_an_index_that_cannot_be_had_is_told_before_the_work(context, monkeypatch):
    given, _ = context
    trainer = TableTrainer()
    with pytest.raises(ConfigError, match="index must be one of"):
        trainer.fit({"name": "table", "index": "magic"}, given)

    def missing(kind):
        raise MissingExtraError("scann", "scann")

    monkeypatch.setattr(models, "index_type", missing)
    with pytest.raises(MissingExtraError, match="scann"):
        trainer.fit({"name": "table", "index": "scann"}, given)
    assert trainer.asked == []


def test_every_model_type_trains_from_a_recipe_and_answers_together(world):
    assert set(SMALL) == set(MODEL_TRAINERS)
    names = {kind: kind.replace("-", "_") for kind in SMALL}
    parts = [f'pipeline = "{" + ".join(f"{name} % 5" for name in names.values())} >> seen % 10"']
    parts += ['[stages.seen]\ntype = "seen"']
    for kind, settings in SMALL.items():
        more = "" if kind in COUNTED else '\nepochs = 1\ndevice = "cpu"'
        parts += [f'[stages.{names[kind]}]\ntype = "{kind}"\nfresh = true']
        parts += [f"[stages.{names[kind]}.train]\n{settings}{more}"]
    trained = train(parse_recipe("\n".join(parts)), world)
    slate = trained.recommend(Request(user="u00000"))
    assert len(set(slate.items[0])) == 10
    assert set(trained.about["training"]) == {names[kind] for kind in SMALL if kind not in COUNTED}
    assert all(one["most"] == 1 and len(one["judged"]) == 1 for one in trained.about["training"].values())


ASKED = """name = "asked"
pipeline = "model % 20 >> seen % 10"

[stages.model]
type = "sasrec"
index = "{index}"

[stages.model.train]
loss = "{loss}"

[stages.seen]
type = "seen"
"""


def test_words_that_mean_nothing_are_refused_with_their_place_in_the_recipe_before_any_work(world):
    with pytest.raises(
        ConfigError, match=r"asked.toml:6: \[stages.model\]: index must be one of exact, .*'hnws'"
    ):
        parse_recipe(ASKED.format(index="hnws", loss="softmax"), "asked.toml")
    with pytest.raises(
        ConfigError, match=r"asked.toml: \[stages.model.train\]: loss must be one of .*'hinge'"
    ):
        train(parse_recipe(ASKED.format(index="exact", loss="hinge"), "asked.toml"), world)


def test_what_a_trainer_refuses_is_told_with_its_stage(world, monkeypatch):
    monkeypatch.setattr("shortlist.train.models.sequence.MOST", 1)
    with pytest.raises(ConfigError, match=r"asked.toml: \[stages.model\]: sasrec: a softmax over 200 items"):
        train(parse_recipe(ASKED.format(index="exact", loss="softmax"), "asked.toml"), world)
