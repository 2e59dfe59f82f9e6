"""What the numbers of a trainer may be."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

from shortlist.errors import ConfigError

RANGES: Mapping[str, tuple[float, float]] = {
    "ahead": (1, 10_000),
    "alpha": (0, 1000),
    "attention": (1, 65_536),
    "backoff": (1e-9, 1e9),
    "batch_size": (1, 1_000_000),
    "blocks": (1, 64),
    "branch": (0, 1e9),
    "cap": (1, 1e9),
    "validation_cases": (1, 1e9),
    "copies": (1, 10_000),
    "days": (0, 100_000),
    "weight_decay": (0, 10),
    "n_negatives": (1, 1_000_000),
    "dropout": (0, 0.95),
    "epochs": (1, 100_000),
    "forget": (0, 0.95),
    "folds": (2, 100),
    "full": (0, 1e12),
    "mask_share": (0.001, 1),
    "heads": (1, 64),
    "hidden": (1, 65_536),
    "instances": (1, 1e12),
    "last": (1, 1e9),
    "layers": (1, 65_536),
    "leaf": (1, 1e9),
    "least": (1, 1e9),
    "leaves": (2, 512),
    "max_history": (1, 10_000),
    "min_history": (1, 10_000),
    "min_recall": (0, 1),
    "mix": (0, 0.99),
    "negatives": (1, 10_000_000),
    "neighbours": (1, 100_000),
    "patience": (1, 100_000),
    "learning_rate": (1e-9, 10),
    "reg": (0, 1000),
    "requests": (1, 1e9),
    "ridge": (1e-9, 1e12),
    "round_epochs": (1, 100_000),
    "round_learning_rate": (1e-9, 10),
    "rounds": (1, 10_000),
    "sasrec_width": (2, 8192),
    "share": (1e-9, 1),
    "shrink": (0, 1e9),
    "spare": (0, 100),
    "steps": (1, 1e9),
    "sticky": (0, 1e6),
    "stride": (1, 64),
    "mask_last_share": (0, 1),
    "train_beam": (0, 1e9),
    "value_width": (1, 8192),
    "vote_beam": (1, 1e9),
    "positives_per_request": (1, 1_000_000),
    "warmup": (0, 1e9),
    "width": (1, 8192),
    "windows": (1, 10_000),
}


def check_ranges(settings: Mapping[str, Any]) -> None:
    """Refuse numbers that no training can be run with; words, and what is left open, are no numbers."""
    for name, value in settings.items():
        if name in RANGES and not isinstance(value, str | NoneType):
            for one in value if isinstance(value, list | tuple) else (value,):
                _check(name, one)


def check_word(name: str, word: str, words: Sequence[str]) -> None:
    """Refuse a word that means nothing here."""
    if word not in words:
        raise ConfigError(f"{name} must be one of {', '.join(words)}, got {word!r}")


def _check(name: str, value: float) -> None:
    low, high = RANGES[name]
    if not low <= value <= high:
        raise ConfigError(f"{name} must lie between {low:g} and {high:g}, got {value!r}")
