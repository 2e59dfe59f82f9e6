"""What every model of the catalogue is: what users met goes in, a number for every item comes out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from shortlist.errors import ArtifactError, ConfigError


@dataclass(frozen=True)
class ModelConfig:
    """What all models have; every other choice of a model is a field of its own configuration."""

    n_items: int
    max_history: int = 69  # how many of the last items are looked at

    def __post_init__(self) -> None:
        if self.n_items < 0 or self.max_history < 1:
            raise ConfigError(
                f"a model needs n_items from 0 and max_history from 1, got {self.n_items} and {self.max_history}"
            )


class Model(nn.Module, ABC):
    """Scores of all items for users, each from what the user met and, where it was learned with, who the user is.

    In eval a score depends on nothing but the weights, the user's row and the history: not on padding, not on who else
    is asked for. A row that is no item (-1, or beyond the catalogue) is as if it were not there; a history without any
    item has an answer too.
    """

    Config: ClassVar[type[ModelConfig]] = ModelConfig
    config: Any
    judged: Sequence[
        float
    ] = ()  # what the judge said after each epoch of its training, when it comes from one

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """How well every item fits next [U, N], float32; history [U, K], -1 = padding; user [U], -1 = unknown."""

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        held = next(chain(self.parameters(), self.buffers()), None)
        return torch.device("cpu") if held is None else held.device

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        """The scores of each user's own rows [U, K]; cheaper than all scores where a model knows how."""
        return self.scores(history, user).gather(1, rows)

    def settings(self) -> dict[str, Any]:
        """What `build` needs beside the weights."""
        return asdict(self.config)

    @classmethod
    def build(cls, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Self:
        """The model back from `settings()` and its weights, in eval."""
        plain: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in settings.items()
        }
        try:
            model = cls(cls.Config(**plain))
            model.load_state_dict(dict(weights))
        except (TypeError, ValueError, ArithmeticError, RuntimeError, ConfigError) as error:
            said = " ".join(str(error).split())
            raise ArtifactError(f"{cls.__name__}: settings and weights do not fit ({said})") from error
        return model.eval()

    def read(self, history: Tensor) -> Tensor:
        """The last `max_history` items of each history [U, <= memory], padding first, everything else as it was.

        Without a catalogue nothing can be looked up, not even padding: there is no place then.
        """
        known = torch.where((history >= 0) & (history < self.config.n_items), history, -1)
        order = (known >= 0).to(torch.uint8).sort(dim=1, stable=True).indices
        width = min(self.config.max_history, history.shape[1]) if self.config.n_items else 0
        return known.gather(1, order)[:, history.shape[1] - width :]


class VectorModel(Model):
    """A model whose score is the product of a user's vector with an item's: any index of vectors can search for it."""

    @abstractmethod
    def users(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        """A vector per user [U, D]."""

    @abstractmethod
    def vectors(self) -> Tensor:
        """A vector per item [N, D]."""

    def scores(self, history: Tensor, user: Tensor | None = None) -> Tensor:
        return (self.users(history, user) @ self.vectors().T).float()

    def score_rows(self, history: Tensor, rows: Tensor, user: Tensor | None = None) -> Tensor:
        return torch.einsum("ud,ukd->uk", self.users(history, user), self.vectors()[rows]).float()


def once(history: Tensor) -> Tensor:
    """Histories with repeats taken out: what is met twice stands at its first place alone."""
    ordered, order = history.sort(dim=1, stable=True)
    again = torch.zeros_like(ordered, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return history.scatter(1, order, ordered.masked_fill(again, -1))
