"""All models of the catalogue by the names recipes know them by, and how they travel in files."""

from collections.abc import Mapping

from torch import Tensor

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.errors import ArtifactError
from shortlist.models.collaborative.ease import EASE
from shortlist.models.collaborative.item_knn import ItemKNN
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.models.collaborative.mf import MF
from shortlist.models.counts.last_click import LastClick
from shortlist.models.counts.popular_window import PopularWindow
from shortlist.models.model import Model
from shortlist.models.sequence.bert4rec import BERT4Rec
from shortlist.models.sequence.din import DIN
from shortlist.models.sequence.fmlp import FMLP
from shortlist.models.sequence.gru4rec import GRU4Rec
from shortlist.models.sequence.sasrec import SASRec
from shortlist.models.sequence.sum_pooling import SumPooling
from shortlist.models.sequence.youtube_dnn import YouTubeDNN

MODELS: Mapping[str, type[Model]] = {
    "bert4rec": BERT4Rec,
    "din": DIN,
    "ease": EASE,
    "fmlp": FMLP,
    "gru4rec": GRU4Rec,
    "item-knn": ItemKNN,
    "last-click": LastClick,
    "lightgcn": LightGCN,
    "mf": MF,
    "popular-in-window": PopularWindow,
    "sasrec": SASRec,
    "sum-pooling": SumPooling,
    "youtube-dnn": YouTubeDNN,
}

ABOUT = "about"  # the name and the settings of a model travel with its weights, as JSON in bytes
PREFIX = "model."


def model_name(model: Model) -> str:
    """The name of a model's kind."""
    return next(name for name, kind in MODELS.items() if type(model) is kind)


def packed(model: Model) -> dict[str, Tensor]:
    """A model as tensors, all that `unpacked` needs."""
    about = json_to_tensor({"model": model_name(model), "settings": model.settings()})
    weights = {name: weight.detach().cpu() for name, weight in model.state_dict().items()}
    return {**with_prefix(PREFIX, weights), ABOUT: about}


def unpacked(tensors: Mapping[str, Tensor]) -> Model:
    """The model back from its tensors."""
    about = json_from_tensor(tensors, ABOUT, "model")
    try:
        kind, settings = MODELS[about["model"]], dict(about["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(
            f"model: {ABOUT!r} names no model of {', '.join(MODELS)} ({error}); make the artifact again"
        ) from error
    return kind.build(settings, without_prefix(PREFIX, tensors))
