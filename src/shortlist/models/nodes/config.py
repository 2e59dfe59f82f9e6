"""Every choice of a node scorer, checked when it is made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self

from shortlist.errors import ConfigError

CHOICES = {
    "kind": ("linear", "mlp", "attention"),
    "history": ("ancestor", "item"),
    "pool": ("sum", "mean"),
    "norm": ("none", "layer", "batch"),
    "output": ("linear", "bn_prelu"),
}


@dataclass(frozen=True)
class ScorerConfig:
    """Sizes and words of a scorer; with its weights, all there is to it."""

    n_rows: int  # rows of the node table
    n_items: int = 0  # rows of the item table, used when history == "item"
    kind: str = "attention"  # linear | mlp | attention
    width: int = 24
    hidden: int = 36  # of the attention unit
    layers: tuple[int, ...] = (128, 64, 24)  # then 1
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)  # oldest first
    history: str = (
        "ancestor"  # ancestor (rows of the node table at the level being scored) | item (own table)
    )
    pool: str = "sum"  # sum | mean (by the real length of the window)
    norm: str = "layer"  # none | layer | batch, on hidden layers
    output: str = "linear"  # linear (no bias) | bn_prelu
    dropout: float = 0.0  # after the first layer, training only
    bias: bool = True  # of the layers and the attention unit; the theory of two stages knows none
    spread: float = 0.1  # standard deviation of fresh embeddings

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            _check_word(name, getattr(self, name), choices)
        for name in ("n_rows", "width", "hidden"):
            _check_positive(name, getattr(self, name))
        for name in ("layers", "windows"):
            _check_sizes(name, getattr(self, name))
        if self.history == "item":
            _check_positive("n_items", self.n_items)
        for name in ("dropout", "spread"):
            if isinstance(one := getattr(self, name), bool) or not isinstance(one, int | float):
                raise ConfigError(f"{name} must be a number, got {one!r}")
        if not isinstance(self.bias, bool):
            raise ConfigError(f"bias must be true or false, got {self.bias!r}")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if not 0 < self.spread < float("inf"):
            raise ConfigError(f"spread must be a positive number, got {self.spread!r}")

    @cached_property
    def max_history(self) -> int:
        """How many of the last items of a history are looked at."""
        return sum(self.windows)

    def settings(self) -> dict[str, Any]:
        """What goes into a file beside the weights."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """The configuration back from its settings."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(settings) - known):
            raise ConfigError(
                f"a node scorer has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}"
            )
        if "n_rows" not in settings:
            raise ConfigError("the settings of a node scorer must name n_rows, the rows of its node table")
        return cls(**{name: _frozen(value) for name, value in settings.items()})


def _check_word(name: str, word: object, choices: tuple[str, ...]) -> None:
    if word not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {word!r}")


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name} must be a positive integer, got {value!r}")


def _check_sizes(name: str, sizes: object) -> None:
    if not isinstance(sizes, tuple) or not sizes:
        raise ConfigError(f"{name} must be a tuple of at least one positive integer, got {sizes!r}")
    for size in sizes:
        _check_positive(f"every entry of {name}", size)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
