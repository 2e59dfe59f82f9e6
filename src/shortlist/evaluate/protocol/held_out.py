"""The held-out requests on which a bundle is evaluated."""

from shortlist.data import Dataset, HeldOut, Split
from shortlist.errors import ConfigError, DataError
from shortlist.pipeline import Recommender

PARTS = ("test", "valid")


def split_of(bundle: Recommender, data: Dataset) -> Split:
    """The split a bundle was trained with; the data set must be the one it was trained on."""
    about = bundle.about
    if about.fingerprint != data.fingerprint:
        raise ConfigError(
            f"{about.name}: was trained on other data ({about.fingerprint or 'unknown'}) than {data.name} "
            f"({data.fingerprint}); its training events could be among the held-out ones; give --data the data set it "
            "was trained on, after `shortlist data append` a copy from before, or train it on these events: "
            "shortlist refresh BUNDLE --data DATA --retrain"
        )
    return data.split(**about.split)


def held_out_part(split: Split, on: str = "test") -> HeldOut:
    """The held-out requests of one part of a split."""
    if on not in PARTS:
        raise ConfigError(f"--on: expected test or valid, got {on!r}")
    return split.test if on == "test" else split.valid


def check_not_empty(held_out: HeldOut) -> None:
    """Refuse a split without held-out requests."""
    if not len(held_out):
        raise DataError(
            "evaluate: expected held-out users, got none; train with another --protocol, such as leave-last-out"
        )
