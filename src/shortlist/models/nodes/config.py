"""The configuration of a node scorer, validated on creation."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

from shortlist.errors import ConfigError
from shortlist.settings import check_settings, setting, settings_of


@dataclass(frozen=True, kw_only=True)
class ScorerSizes:
    """Sizes of the attention over the history and of the layers after it."""

    width: int = setting(24, "Embedding dimension.", least=1, most=8192)
    hidden: int = setting(36, "Hidden size of the attention unit.", least=1, most=65_536)
    layers: tuple[int, ...] = setting((128, 64, 24), "Sizes of the hidden layers.", least=1, most=65_536)
    windows: tuple[int, ...] = setting(
        (20, 20, 10, 10, 2, 2, 2, 1, 1, 1),
        "Lengths of the history windows, oldest first; their sum is the history length.",
        least=1,
        most=10_000,
    )


@dataclass(frozen=True, kw_only=True)
class ScorerSettings(ScorerSizes):
    """What a user sets of a node scorer: the only place of these defaults, ranges and meanings."""

    where: ClassVar[str] = "node scorer"  # start of error messages

    history: str = setting(
        "ancestor",
        "Embedding of a history item: its ancestor's at the scored level, or its own.",
        choices=("ancestor", "item"),
    )
    pool: str = setting(
        "sum", "Pooling within a history window; mean divides by its real length.", choices=("sum", "mean")
    )
    norm: str = setting("layer", "Normalisation of hidden layers.", choices=("none", "layer", "batch"))
    output: str = setting(
        "linear", "Output layer of the scorer; linear has no bias.", choices=("linear", "bn_prelu")
    )
    dropout: float = setting(0.0, "Dropout after the first layer.", least=0, most=0.95)
    spread: float = setting(0.1, "Standard deviation of initial embeddings.", least=1e-9, most=1e6)

    def __post_init__(self) -> None:
        check_settings(asdict(self), settings_of(type(self)), self.where)
        for name in ("layers", "windows"):
            if not isinstance(getattr(self, name), tuple) or not getattr(self, name):
                raise ConfigError(
                    f"{self.where}: {name} must have at least one whole number, got {getattr(self, name)!r}"
                )


@dataclass(frozen=True)
class ScorerConfig(ScorerSettings):
    """A scorer for tables of given sizes; together with the weights it determines the scorer."""

    n_rows: int = setting(MISSING, "Rows of the node table.", least=1)
    n_items: int = setting(0, 'Rows of the item table, used if history is "item".', least=0)
    kind: str = setting("attention", "Model that scores nodes.", choices=("attention", "mlp", "linear"))
    bias: bool = setting(True, "Biases in the layers and the attention unit; the two-stage theory has none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history == "item" and self.n_items < 1:
            raise ConfigError(
                f'{self.where}: n_items must be at least 1 if history is "item", got {self.n_items!r}'
            )

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
        check_settings(settings, settings_of(cls), cls.where)
        if "n_rows" not in settings:
            raise ConfigError(f"{cls.where}: n_rows is missing, the rows of its node table")
        return cls(**{name: _frozen(value) for name, value in settings.items()})


def values_of(config: ScorerSizes, kind: type[ScorerSizes]) -> dict[str, Any]:
    """The values of the fields that `kind` declares, to make a `ScorerConfig` of a configuration that extends it."""
    return {one.name: getattr(config, one.name) for one in fields(kind)}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


CHOICES = {parameter.name: parameter.choices for parameter in settings_of(ScorerConfig) if parameter.choices}
