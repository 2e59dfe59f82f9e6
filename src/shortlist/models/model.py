"""Base classes of all models: histories in, a score for every item of the catalogue out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import ArtifactError, ConfigError
from shortlist.models.sparse_scores import SparseScores
from shortlist.models.stored_weights import with_weights
from shortlist.settings import check_fields, setting


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of a model: the only place of their defaults, ranges and meanings."""

    n_items: int = setting(0, "Number of items in the catalogue.", least=0, derived=True)
    max_history: int = setting(
        69, "Number of last items of a history that the model reads.", least=1, most=10_000
    )

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)


class Model(nn.Module, ABC):
    """Scores all items for users, from their histories and, for known users, from their rows.

    In eval mode a score depends only on the weights, the user's row and the history: not on padding and not on the
    rest of the batch. A row that is no item (-1, or beyond the catalogue) is ignored. An empty history has finite
    scores too.

    A subclass sets `Config`. It may set `training_defaults`: settings of its trainer that differ from the trainer's own
    defaults.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    training_defaults: ClassVar[Mapping[str, Any]] = {}
    needs_history: ClassVar[bool] = False  # True: nominates nothing for an empty history
    reads_history: ClassVar[bool] = True  # False: scores depend on the user's row alone

    config: Any
    validation: Sequence[float] = ()  # early-stopping metric after every training epoch

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """Scores of all items [U, N], float32; history [U, K], -1 = padding; user [U], -1 = unknown."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        weight = next(chain(self.parameters(), self.buffers()), None)
        return torch.device("cpu") if weight is None else weight.device

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        """Scores of the given items of each user [U, K]; overridden where that is cheaper than all scores."""
        return self.scores(history, user).gather(1, rows)

    def sparse_scores(self, history: Tensor) -> SparseScores | None:
        """The same scores where few items differ from one common order; None where a model has no such form."""
        return None

    def history_similarities(self, history: Tensor, rows: Tensor) -> Tensor | None:
        """How similar each given item is to each item of its history [U, K, H]; None where a model has no measure."""
        return None

    def check_catalogue(self, n_items: int) -> None:
        """Raise ArtifactError if the weights do not fit a catalogue of this size; checks what a model indexes with."""
        if self.config.n_items != n_items:
            raise ArtifactError(f"the model is of {self.config.n_items} items, the catalogue has {n_items}")

    def settings(self) -> dict[str, Any]:
        """The config as plain values, for `build`."""
        return asdict(self.config)

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Self:
        """The model from its `settings()` and its state dict, in eval mode."""
        plain: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()
        }
        try:
            config = cls.Config(**plain)
            return with_weights(lambda: cls(config), weights)
        except (TypeError, ValueError, ArithmeticError, RuntimeError, ConfigError) as error:
            reason = " ".join(str(error).split())
            raise ArtifactError(f"{cls.__name__}: settings and weights do not fit ({reason})") from error

    def read(self, history: Tensor) -> Tensor:
        """The last `max_history` items of each history [U, <= max_history], in order, padding first.

        Without any item in the catalogue the result has no columns, because not even padding could be embedded.
        """
        known = torch.where((history >= 0) & (history < self.config.n_items), history, -1)
        order = (known >= 0).to(torch.uint8).sort(dim=1, stable=True).indices
        width = min(self.config.max_history, history.shape[1]) if self.config.n_items else 0
        return known.gather(1, order)[:, history.shape[1] - width :]


class VectorModel(Model):
    """A model whose score is the dot product of a user and an item vector, so that a vector index can search it."""

    @abstractmethod
    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """User vectors [U, D]."""

    @abstractmethod
    def vectors(self) -> Tensor:
        """Item vectors [N, D]."""

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        return (self.users(history, user) @ self.vectors().T).float()

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        return self.score_vectors(self.users(history, user), rows)

    def score_vectors(self, users: Tensor, rows: Tensor) -> Tensor:
        """Scores of the given items [U, K] for user vectors [U, D]."""
        return torch.einsum("ud,ukd->uk", users, self.vectors()[rows]).float()

    def history_similarities(self, history: Tensor, rows: Tensor) -> Tensor | None:
        """Cosines of the item vectors."""
        past, own = (F.normalize(self.vectors()[one], dim=-1) for one in (history, rows))
        return torch.einsum("uhd,ukd->ukh", past, own).float()


def without_repeats(history: Tensor) -> Tensor:
    """Histories in which every item keeps only its first position; later repeats become -1."""
    ordered, order = history.sort(dim=1, stable=True)
    repeated = torch.zeros_like(ordered, dtype=torch.bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return history.scatter(1, order, ordered.masked_fill(repeated, -1))
