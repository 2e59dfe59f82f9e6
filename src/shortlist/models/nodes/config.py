"""The configuration of a node scorer, validated on creation."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass
from functools import cached_property
from typing import Any, Self

from shortlist.errors import ConfigError
from shortlist.settings import check_settings, setting, settings_of

WHERE = "node scorer"


@dataclass(frozen=True)
class ScorerConfig:
    """Sizes and options of a scorer; together with the weights it determines the scorer."""

    n_rows: int = setting(MISSING, "Rows of the node table.", least=1)
    n_items: int = setting(0, 'Rows of the item table, used if history is "item".', least=0)
    kind: str = setting("attention", "Architecture of the scorer.", choices=("linear", "mlp", "attention"))
    width: int = setting(24, "Embedding dimension.", least=1)
    hidden: int = setting(36, "Hidden units of the attention unit.", least=1)
    layers: tuple[int, ...] = setting((128, 64, 24), "Hidden layer sizes; one output follows.", least=1)
    windows: tuple[int, ...] = setting(
        (20, 20, 10, 10, 2, 2, 2, 1, 1, 1), "Lengths of the history windows, oldest first.", least=1
    )
    history: str = setting(
        "ancestor",
        "History vectors: of the ancestors at the scored level, or of a separate item table.",
        choices=("ancestor", "item"),
    )
    pool: str = setting(
        "sum", "Pooling of a window; mean divides by its real length.", choices=("sum", "mean")
    )
    norm: str = setting("layer", "Normalisation of hidden layers.", choices=("none", "layer", "batch"))
    output: str = setting("linear", "Output layer; linear has no bias.", choices=("linear", "bn_prelu"))
    dropout: float = setting(0.0, "Dropout after the first layer, below 1.", least=0, most=1)
    bias: bool = setting(True, "Biases in the layers and the attention unit; the two-stage theory has none.")
    spread: float = setting(0.1, "Standard deviation of initial embeddings.", least=0)

    def __post_init__(self) -> None:
        check_settings(asdict(self), settings_of(type(self)), WHERE)
        for name in ("layers", "windows"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise ConfigError(
                    f"{WHERE}: {name} must have at least one entry, got {getattr(self, name)!r}"
                )
        if self.history == "item" and self.n_items < 1:
            raise ConfigError(
                f'{WHERE}: n_items must be at least 1 if history is "item", got {self.n_items!r}'
            )
        if not self.dropout < 1:
            raise ConfigError(f"{WHERE}: dropout must be below 1, got {self.dropout!r}")
        if not 0 < self.spread < float("inf"):
            raise ConfigError(f"{WHERE}: spread must be a positive number, got {self.spread!r}")

    @cached_property
    def max_history(self) -> int:
        """The number of most recent history items that are used."""
        return sum(self.windows)

    def settings(self) -> dict[str, Any]:
        """The plain values stored beside the weights."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The configuration from its stored settings."""
        check_settings(settings, settings_of(cls), WHERE)
        if "n_rows" not in settings:
            raise ConfigError(f"{WHERE}: n_rows is missing, the rows of its node table")
        return cls(**{name: _frozen(value) for name, value in settings.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


CHOICES = {parameter.name: parameter.choices for parameter in settings_of(ScorerConfig) if parameter.choices}
