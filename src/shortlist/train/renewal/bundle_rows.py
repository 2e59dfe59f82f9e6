"""Events of a data set in the rows of a bundle: users and items are matched by id."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import UNKNOWN, Dataset, Interactions, Vocabulary
from shortlist.errors import DataError
from shortlist.pipeline import Recommender
from shortlist.state.histories import UserHistories

LEAST_SHARE = 0.5  # of a bundle's users with a history that a data set must have events of

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BundleRows:
    """The users of a bundle, then those that are new, and the events whose items the bundle knows."""

    users: Vocabulary
    events: Interactions
    new_users: int
    unknown_items: int  # items of the data set that are not in the catalogue of the bundle
    left_out: int  # events with those items

    @property
    def n_users(self) -> int:
        """Users with events."""
        return int(np.count_nonzero(self.events.lengths))


def in_rows_of(bundle: Recommender, dataset: Dataset) -> BundleRows:
    """The events of a data set in the rows of a bundle; it must hold the earlier events too."""
    if bundle.about.clock != dataset.clock:
        raise DataError(
            f"{dataset.name}: its times are {_CLOCKS[dataset.clock]}, those of the bundle {_CLOCKS[bundle.about.clock]}"
        )
    users = bundle.users.extended(dataset.users)
    user_rows = users.rows_of(dataset.users).astype(np.int64)
    _check_shared(bundle, dataset, user_rows)
    item_rows = bundle.catalog.vocabulary.rows(dataset.items.ids.to_pylist())
    log = dataset.events
    items = item_rows[log.items]
    known = items != UNKNOWN
    events = Interactions.of(
        user_rows[log.users[known]],
        items[known],
        log.times[known],
        log.weights[known],
        len(users),
        len(bundle.catalog),
    )
    unknown = int((item_rows == UNKNOWN).sum())
    return BundleRows(users, events, len(users) - len(bundle.users), unknown, int((~known).sum()))


_CLOCKS = {"ms": "timestamps", "order": "positions in the log"}


def _check_shared(bundle: Recommender, dataset: Dataset, user_rows: Rows) -> None:
    """Refuse a data set that lacks most users: it probably holds the new events alone."""
    remembered = bundle.histories.starts.diff() > 0
    present = torch.zeros(len(remembered), dtype=torch.bool)
    present[torch.from_numpy(user_rows[user_rows < len(present)])] = True
    shared, total = int((remembered & present).sum()), int(remembered.sum())
    if shared < LEAST_SHARE * total:
        raise DataError(
            f"{dataset.name}: has events of {shared:,} of the {total:,} users the bundle remembers; expected the whole "
            "log with the new events, so add them with: shortlist data append DATA NEW_EVENTS"
        )


def trained_events(old: UserHistories, events: Interactions) -> Rows:
    """How many of each user's first events the measured pipeline may have been trained on [U].

    Where the history does not begin with the old training events any more, all events of the user count.
    """
    known = (
        old.starts.diff() if old.trained is None else old.trained
    )  # a bundle of 0.2 remembers training events only
    trained = np.zeros(events.n_users, np.int64)
    trained[: len(known)] = known.numpy()
    begins = np.zeros(events.n_users, np.int64)
    begins[: len(old.starts) - 1] = old.starts[:-1].numpy()
    short = trained > events.lengths
    compared = np.where(short, 0, trained)  # events compared per user
    user = np.repeat(np.arange(events.n_users), compared)
    place = np.arange(len(user)) - np.repeat(compared.cumsum() - compared, compared)
    same = old.items.numpy()[begins[user] + place] == events.items[events.starts[user] + place]
    changed = short | (np.bincount(user, ~same, events.n_users) > 0)
    return np.where(changed, events.lengths, trained)
