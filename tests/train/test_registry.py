"""Every type has a trainer or needs none, and every setting has a default, a range and a meaning."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from shortlist.errors import ConfigError
from shortlist.grammar import Filter
from shortlist.models.model import Model
from shortlist.models.registry import MODELS
from shortlist.pipeline import TYPES
from shortlist.settings import setting
from shortlist.stages import Explore, Seen
from shortlist.train import TRAINERS, TrainContext
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.registry import Stateless, make_trainer, train_settings, trainer_of

STATELESS = {"repeat", "seen", "explore"}


@dataclass(frozen=True, eq=False, repr=False)
class Every(Filter):
    """Keep every n-th candidate."""

    n: int = setting(2, "Keep one candidate in this many.", least=1)

    def keep(self, query, found):
        return torch.arange(found.shape[1]).expand(found.shape) % self.n == 0


@dataclass(frozen=True, eq=False, repr=False)
class First(Filter):
    """Keep the first n candidates; the annotation is a string, as under `from __future__ import annotations`."""

    n: "int"

    def keep(self, query, found):
        return torch.arange(found.shape[1]).expand(found.shape) < self.n


@dataclass(frozen=True, eq=False, repr=False)
class Table(Filter):
    """Keep the items of a table that only a trainer can make."""

    table: Tensor
    note: str = field(default="")

    def keep(self, query, found):
        return self.table[found.items.clamp(min=0)]


def test_every_type_has_a_trainer_or_is_stateless():
    assert set(TRAINERS) | set(MODELS) | STATELESS == set(TYPES)
    assert set(TRAINERS) <= set(TYPES)
    for name in STATELESS:
        assert make_trainer(name) == Stateless(TYPES[name])


def test_stateless_stage_is_built_from_its_settings(world):
    context = TrainContext(world.events, world.catalog)
    seen, explore = make_trainer("seen").fit({"last": 3}, context), make_trainer("explore")
    assert isinstance(seen, Seen)
    assert seen.last == 3
    assert isinstance(explore.fit({"temperature": 0.5}, context), Explore)


def test_annotations_may_be_strings():
    types = {**TYPES, "first": First}
    assert trainer_of("first", {}, "here", types=types) == Stateless(First)


def test_stateless_stage_of_your_own_needs_no_trainer(world):
    trainer = trainer_of("every", {}, "here", types={"every": Every})
    assert trainer.fit({"n": 3}, TrainContext(world.events, world.catalog)).n == 3
    with pytest.raises(ConfigError, match="here: unknown key 'n'; expected one of none"):
        trainer_of("every", {"n": 3}, "here", types={"every": Every})  # it belongs to [stages.NAME]


def test_stage_with_tensors_and_no_trainer_is_refused():
    with pytest.raises(ConfigError, match="here: no trainer for type 'table', whose table must be trained"):
        trainer_of("table", {}, "here", types={"table": Table})


class Bare(Model):
    """A model without weights."""

    def scores(self, history, user=None):
        return torch.zeros(len(history), self.config.n_items)


class Weighted(Bare):
    """A model with a weight and no trainer."""

    def __init__(self, config):
        super().__init__(config)
        self.weight = torch.nn.Parameter(torch.zeros(config.n_items))


class Counted(Weighted):
    """A model that fits itself."""

    @classmethod
    def fit(cls, config, events):
        model = cls(config)
        model.weight.data = torch.bincount(torch.tensor(events.items), minlength=config.n_items).float()
        return model


def test_model_with_weights_and_no_trainer_is_refused(monkeypatch):
    monkeypatch.setitem(MODELS, "weighted", Weighted)
    with pytest.raises(
        ConfigError, match="no trainer for Weighted; derive it from SequenceModel or VectorModel"
    ):
        make_trainer("weighted")


def test_model_without_weights_needs_no_trainer(monkeypatch, world):
    monkeypatch.setitem(MODELS, "bare", Bare)
    model = make_trainer("bare", max_history=3).learn(world.events)
    assert (model.config.n_items, model.config.max_history) == (len(world.items), 3)


def test_model_with_fit_is_trained_by_it(monkeypatch, world):
    monkeypatch.setitem(MODELS, "counted", Counted)
    assert make_trainer("counted").learn(world.events).weight.sum() == len(world.events)


@pytest.mark.parametrize("name", TYPES)
def test_every_training_setting_has_a_meaning_and_a_valid_default(name):
    for one in train_settings(name):
        assert one.meaning, one.name
        assert not one.required, one.name
        if one.default is not None:
            one.check(one.default, name)
        number = isinstance(one.default, int | float) and not isinstance(one.default, bool)
        assert not number or one.range, f"{one.name} has no range"


def test_training_defaults_of_a_model_replace_those_of_its_trainer():
    defaults = {one.name: one.default for one in train_settings("youtube-dnn")}
    assert (defaults["loss"], defaults["negatives"]) == ("sampled", 1000)
    assert {one.name: one.default for one in train_settings("sasrec")}["negatives"] == 256
    assert isinstance(make_trainer("youtube-dnn"), SequenceTrainer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, r"here: epochs must lie between 1 and 100000, got 0"),
        ({"epochs": "many"}, "here: epochs must be a whole number, got 'many'"),
        ({"learning_rate": float("nan")}, "here: learning_rate must lie between"),
        ({"dropout": 1.0}, "here: dropout must lie between"),
        ({"memory": 5}, "memory was renamed to max_history"),
        ({"heads": 3}, "here: heads must divide width"),
    ],
)
def test_invalid_training_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        trainer_of("sasrec", settings, "here")
