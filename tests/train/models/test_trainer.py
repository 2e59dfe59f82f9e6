from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import nn

from shortlist.errors import ConfigError, MissingExtraError
from shortlist.models.model import Model
from shortlist.models.registry import MODELS
from shortlist.models.sequence.sasrec import SASRecConfig
from shortlist.nominate import model as nominate
from shortlist.pipeline import parse_recipe
from shortlist.pipeline.recommender import Request
from shortlist.testing.stages import check_stage
from shortlist.train import TrainContext, train
from shortlist.train.models.trainer import ModelTrainer
from shortlist.train.registry import make_trainer

SMALL = {
    "bert4rec": "width = 8\nheads = 1\nmax_history = 10",
    "ccf": "width = 8\nfeature_width = 4\nuniform_negatives = 8",
    "din": "width = 8\nhidden = 8\nlayers = [8]\nwindows = [4, 1, 1]\ninstances = 300",
    "fmlp": "width = 8\nmax_history = 10\ninstances = 300",
    "gru4rec": "width = 8\nhidden = 8\nmax_history = 10",
    "lightgcn": "width = 8\nlayers = 1\nbatch_size = 2000",
    "mf": 'width = 8\nbatch_size = 2000\nloss = "bpr"',
    "sasrec": 'width = 8\nheads = 1\nmax_history = 10\nloss = "sampled"\nnegatives = 8',
    "sum-pooling": "width = 8\nhidden = 8\nmax_history = 10",
    "two-time-scale": "width = 8\nfirst_epochs = 1\nthreshold = 10",
    "two-tower": "width = 8\nhidden = 8\nmax_history = 10\ninstances = 300",
    "youtube-dnn": "width = 8\nlayers = [8]\nmax_history = 10\nnegatives = 8",
    "ease": "ridge = 10.0",
    "item-knn": "neighbours = 5",
    "last-click": "neighbours = 5",
}
WITHOUT_EPOCHS = ("ease", "item-knn", "last-click")


class Table(Model):
    """Scores items by their row."""

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Parameter(torch.arange(float(config.n_items)))

    def scores(self, history, user=None):
        return self.table.expand(len(history), -1).detach()


@dataclass(frozen=True)
class TableTrainer(ModelTrainer):
    """A trainer whose model has a given validation history."""

    model: type[Any] = field(default=Table, kw_only=True)
    epochs: int = 10
    patience: int = 2
    validation: tuple[float, ...] = (0.1, 0.3, 0.2, 0.2)
    calls: list = field(default_factory=list)

    def learn(self, events, valid=None, seed=0, progress=None, on_validation=None, catalog=None):
        self.calls.append((events, valid, seed, progress, catalog))
        model = Table(self.config_for(events))
        model.validation = self.validation
        return model.eval()


@pytest.fixture
def context(world):
    """A context, and the training histories that are recorded."""
    split, histories = world.split(), {}
    given = TrainContext(split.train, world.catalog, seed=3, valid=split.valid, note=histories.__setitem__)
    return given, histories


def test_trained_model_becomes_a_nominator_of_its_best_items(context, world):
    given, _ = context
    trainer = TableTrainer()
    stage = trainer.fit({"name": "table", "limit": 3, "exclude_seen": True}, given)
    assert trainer.calls == [(given.events, given.valid, 3, given.progress, given.catalog)]
    best = len(world.items) - 1
    query = world.split().test.query(slice(0, 1))
    query = replace(query, history=torch.tensor([[best - 1]]))
    assert stage.nominate(query).items.tolist() == [[best, best - 2, best - 3]]
    check_stage(stage, len(world.items))


@pytest.mark.parametrize(
    ("validation", "expected"),
    [((0.1, 0.3, 0.2, 0.2), True), (tuple(0.1 * at for at in range(10)), False), ((), None)],
)
def test_training_history_is_recorded_under_the_name_of_the_stage(context, validation, expected):
    given, histories = context
    TableTrainer(validation=validation).fit({"name": "table"}, given)
    (history,) = histories.values()
    assert set(histories) == {"table"}
    assert history.converged is expected
    assert history.max_epochs == 10
    assert history.epochs == (len(validation) or 10)
    assert history.validation == validation


@pytest.mark.parametrize("name", ["ease", "item-knn"])
def test_trainer_without_epochs_records_no_history(context, name):
    given, histories = context
    make_trainer(name).fit({"name": "counted"}, given)
    assert histories == {}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_trainer_with_epochs_has_a_patience(name):
    trainer = make_trainer(name)
    assert hasattr(trainer, "epochs") == hasattr(trainer, "patience") == (name not in WITHOUT_EPOCHS)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_no_setting_is_written_twice(name):
    names = [one.name for one in make_trainer(name).declared()]
    assert len(names) == len(set(names))
    assert all(one.meaning for one in make_trainer(name).declared())


def test_settings_of_the_model_go_to_its_config_and_the_others_to_the_trainer():
    trainer = make_trainer("sasrec", width=16, heads=4, epochs=3)
    assert trainer.config == SASRecConfig(width=16, heads=4)
    assert trainer.epochs == 3
    assert trainer.settings() == {**make_trainer("sasrec").settings(), "width": 16, "heads": 4, "epochs": 3}
    changed = trainer.with_settings(width=8, learning_rate=0.1)
    assert (changed.config.width, changed.config.heads, changed.learning_rate, changed.epochs) == (
        8,
        4,
        0.1,
        3,
    )
    with pytest.raises(ConfigError, match="unknown key 'n_items'"):
        trainer.with_settings(n_items=5)  # comes from the data


def test_missing_index_is_refused_before_training(context, monkeypatch):
    given, _ = context
    trainer = TableTrainer()
    with pytest.raises(ConfigError, match="index must be one of"):
        trainer.fit({"name": "table", "index": "magic"}, given)

    def missing(kind):
        raise MissingExtraError("scann", "scann")

    monkeypatch.setattr(nominate, "index_type", missing)
    with pytest.raises(MissingExtraError, match="scann"):
        trainer.fit({"name": "table", "index": "scann"}, given)
    assert trainer.calls == []


def test_every_model_type_trains_from_a_recipe(world):
    assert set(SMALL) == set(MODELS)
    names = {kind: kind.replace("-", "_") for kind in SMALL}
    parts = [f'pipeline = "{" + ".join(f"{name} % 5" for name in names.values())} >> seen % 10"']
    parts += ['[stages.seen]\ntype = "seen"']
    for kind, settings in SMALL.items():
        more = "" if kind in WITHOUT_EPOCHS else '\nepochs = 1\ndevice = "cpu"'
        parts += [f'[stages.{names[kind]}]\ntype = "{kind}"\nexclude_seen = true']
        parts += [f"[stages.{names[kind]}.train]\n{settings}{more}"]
    trained = train(parse_recipe("\n".join(parts)), world)
    slate = trained.recommend(Request(user="u00000"))
    assert len(set(slate.items[0])) == 10
    histories = trained.about.training
    assert set(histories) == {names[kind] for kind in SMALL if kind not in WITHOUT_EPOCHS}
    assert all(one.max_epochs == 1 for one in histories.values())
    assert all(
        len(one.validation) == (name != "ccf") for name, one in histories.items()
    )  # of known users only


RECIPE = """name = "small"
pipeline = "model % 20 >> seen % 10"

[stages.model]
type = "sasrec"
index = "{index}"

[stages.model.train]
loss = "{loss}"

[stages.seen]
type = "seen"
"""


def test_unknown_choices_are_refused_with_their_place_in_the_recipe_before_training(world):
    with pytest.raises(
        ConfigError, match=r"small.toml:6: \[stages.model\]: index must be one of exact, .*'hnws'"
    ):
        parse_recipe(RECIPE.format(index="hnws", loss="softmax"), "small.toml")
    with pytest.raises(
        ConfigError, match=r"small.toml: \[stages.model.train\]: loss must be one of .*'hinge'"
    ):
        train(parse_recipe(RECIPE.format(index="exact", loss="hinge"), "small.toml"), world)


def test_error_of_a_trainer_names_its_stage(world, monkeypatch):
    monkeypatch.setattr("shortlist.train.models.sequence.MAX_LOGITS", 1)
    with pytest.raises(ConfigError, match=r"small.toml: \[stages.model\]: sasrec: a softmax over 200 items"):
        train(parse_recipe(RECIPE.format(index="exact", loss="softmax"), "small.toml"), world)
