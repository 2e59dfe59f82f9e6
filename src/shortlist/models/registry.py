"""All models by the names that recipes use, and their form in artifacts."""

from collections.abc import Mapping

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.errors import ArtifactError
from shortlist.models.collaborative.ccf import CCF
from shortlist.models.collaborative.ease import EASE
from shortlist.models.collaborative.item_knn import ItemKNN
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.models.collaborative.mf import MF
from shortlist.models.counts.last_click import LastClick
from shortlist.models.model import Model
from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.models.sequence.din import DIN
from shortlist.models.sequence.fmlp import FMLP
from shortlist.models.sequence.gru4rec import GRU4Rec
from shortlist.models.sequence.sasrec import SASRec
from shortlist.models.sequence.sum_pooling import SumPooling
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.models.sequence.two_tower import TwoTower
from shortlist.models.sequence.youtube_dnn import YouTubeDNN

MODELS: dict[str, type[Model]] = {
    "bert4rec": BERT4Rec,
    "ccf": CCF,
    "din": DIN,
    "ease": EASE,
    "fmlp": FMLP,
    "gru4rec": GRU4Rec,
    "item-knn": ItemKNN,
    "last-click": LastClick,
    "lightgcn": LightGCN,
    "mf": MF,
    "sasrec": SASRec,
    "sum-pooling": SumPooling,
    "two-time-scale": TwoTimeScale,
    "two-tower": TwoTower,
    "youtube-dnn": YouTubeDNN,
}
"""A new model is one line here; `shortlist.pipeline.registry.register` adds a model of your own."""

ABOUT = "about"  # name and settings of a model, as JSON bytes next to its weights
PREFIX = "model."


def model_name(kind: type[Model]) -> str:
    """The name of a model class in recipes."""
    return next(name for name, known in MODELS.items() if known is kind)


def packed(model: Model) -> dict[str, Tensor]:
    """A model as tensors, for an artifact."""
    about = json_to_tensor({"model": model_name(type(model)), "settings": model.settings()})
    weights = {name: weight.detach().cpu() for name, weight in model.state_dict().items()}
    return {**with_prefix(PREFIX, weights), ABOUT: about}


def unpacked(tensors: Mapping[str, Tensor]) -> Model:
    """The model from its tensors, in eval mode."""
    about = json_from_tensor(tensors, ABOUT, "model")
    try:
        kind, settings = MODELS[about["model"]], dict(about["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(
            f"model: {ABOUT!r} contains no model of {', '.join(MODELS)} ({error}); train the bundle again"
        ) from error
    return kind.build(settings, without_prefix(PREFIX, tensors))
