"""The split of a training: of the data set, of another protocol, or all events where nothing can be held out."""

from shortlist.data import Dataset, Split
from shortlist.data.split import PROTOCOLS
from shortlist.errors import ConfigError, DataError
from shortlist.train.refit import all_events


def check_protocol(protocol: str | None) -> None:
    """Refuse a name that is no protocol."""
    if protocol is not None and protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")


def split_of(dataset: Dataset, protocol: str | None) -> tuple[Split, tuple[str, ...]]:
    """The split of a training, or all events and a warning where the split of the data set holds out nobody."""
    if protocol is not None:
        return dataset.split(protocol=protocol), ()
    try:
        return dataset.split(), ()
    except DataError as error:
        if not len(dataset.events):
            raise
        return all_events(dataset, dataset.split_settings), (
            f"nothing is measured ({error}): all events are trained on, and stages with epochs run all of them",
        )
