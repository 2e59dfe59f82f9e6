"""A sequence model of your own needs one class and one call of `register`: it is trained, saved, loaded and served."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from shortlist.data import Dataset
from shortlist.models.model import ModelConfig
from shortlist.models.sequence.model import SequenceModel, padding_last
from shortlist.pipeline import load_recommender, parse_recipe
from shortlist.pipeline.registry import register
from shortlist.serve import make_app
from shortlist.settings import setting
from shortlist.testing import check_model, check_model_trainer, check_stage
from shortlist.train import train
from shortlist.train.models.sequence import SequenceTrainer
from shortlist.train.registry import make_trainer
from shortlist.train.type_settings import describe_type
from tests.serve.small_service import client_of


@dataclass(frozen=True)
class DecayConfig(ModelConfig):
    """Sizes of the toy model."""

    width: int = setting(8, "Width of the item embeddings.", least=1, most=64)


class Decay(SequenceModel):
    """An exponentially decayed sum of item embeddings with a learned rate."""

    Config = DecayConfig
    training_defaults = {"learning_rate": 1e-2}  # noqa: RUF012

    def __init__(self, config: DecayConfig) -> None:
        super().__init__(config, config.width)
        self.start = nn.Parameter(torch.zeros(config.width))
        self.rate = nn.Parameter(torch.tensor(0.5))

    def forward(self, history: Tensor) -> Tensor:
        history = padding_last(history[:, -self.config.max_history :])  # [U, K]
        vectors = [self.start.expand(len(history), -1)]
        for item in history.T:
            embedded = self.items(item.clamp(min=0)) * (item >= 0)[:, None]
            vectors.append(torch.sigmoid(self.rate) * vectors[-1] + embedded)
        return torch.stack(vectors, dim=1)  # [U, K + 1, D]


RECIPE = """
name = "toy"
pipeline = "decay % 50 >> seen % 10"

[stages.decay]
type = "decay"
exclude_seen = true

[stages.decay.train]
width = 16
max_history = 10
epochs = 2
device = "cpu"

[stages.seen]
type = "seen"
"""


@pytest.fixture(autouse=True)
def registered():
    register("decay", Decay)


def test_toy_model_is_trained_saved_loaded_and_served(world: Dataset, tmp_path):
    trained = train(parse_recipe(RECIPE, "toy.toml"), world, tmp_path / "bundle")
    assert trained.about.training["decay"].epochs == 2
    loaded = load_recommender(tmp_path / "bundle")
    model = loaded.pipeline.nominators[0].model
    assert isinstance(model, Decay)
    assert model.config == DecayConfig(len(world.items), max_history=10, width=16)
    with client_of(make_app(loaded)) as client:
        answer = client.recommend(user_id="u00000")
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["items"]) == 10


def test_toy_model_has_the_trainer_of_sequence_models_and_its_own_defaults():
    trainer = make_trainer("decay", epochs=3)
    assert type(trainer) is SequenceTrainer
    assert (trainer.learning_rate, trainer.epochs, trainer.config.width) == (1e-2, 3, 8)
    assert describe_type("decay").meaning.startswith("An exponentially decayed sum")


def test_toy_model_keeps_the_contract_of_models(world: Dataset):
    split = world.split()
    trainer = make_trainer("decay", epochs=2, max_history=10, device="cpu")
    check_model_trainer(trainer, split)
    model = trainer.learn(split.train, split.valid)
    check_model(model, split.test.query(slice(0, 4), width=30), split.train.n_users)


def test_toy_nominator_keeps_the_contract_of_stages(world: Dataset):
    recommender = train(parse_recipe(RECIPE, "toy.toml"), world)
    check_stage(recommender.pipeline.nominators[0], len(world.items))
