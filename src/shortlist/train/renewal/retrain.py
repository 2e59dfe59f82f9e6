"""An old bundle against a new one on validation requests whose relevant items neither was trained on.

The training of the new one was stopped early by these same requests, which favours it a little; that of the old one by
its own validation requests.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.data import UNKNOWN, Dataset, HeldOut, Query
from shortlist.errors import DataError
from shortlist.metrics.ranking import recall
from shortlist.metrics.significance import PairedTest, paired
from shortlist.pipeline import Recommender, run
from shortlist.pipeline.batch.held_out import in_batches, in_order
from shortlist.pipeline.offline import offline
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent
from shortlist.train.measure import CUT, slates
from shortlist.train.renewal.bundle_rows import in_rows_of, trained_events


@dataclass(frozen=True)
class Retrained:
    """The new measured pipeline against the old one: recall@20 on the same validation requests."""

    requests: int  # whose relevant items neither was trained on
    old: float
    new: float
    test: PairedTest  # new - old

    @property
    def kept(self) -> bool:
        """Whether the new bundle replaces the old one: it is not significantly worse."""
        return not self.test.below

    def __str__(self) -> str:
        verdict = "the new bundle is kept" if self.kept else "the old bundle is kept"
        test = self.test
        return (
            f"recall@{CUT} on {self.requests:,} validation requests new to both: {self.old:.4f} before, {self.new:.4f} "
            f"now, difference {test.difference:+.4f} [{test.low:+.4f}, {test.high:+.4f}]: {verdict}"
        )


def compared(
    old: Recommender, new: Recommender, dataset: Dataset, requests: HeldOut, progress: Progress = silent
) -> Retrained:
    """Compare the measured pipelines of two bundles; the new one was trained on a split with these requests."""
    rows = _Rows.of(old, dataset)
    now = slates(new.as_measured().pipeline, requests, "compare", progress)
    pipeline = resized(offline(old.as_measured().pipeline), CUT)
    found = in_batches(lambda _, query: run(pipeline, rows.query(query)).items, requests, progress, "compare")
    relevant = requests.relevant()
    a, b = (recall(one, relevant, CUT) for one in (now, rows.back(in_order(found))))
    return Retrained(len(requests), float(b.mean()), float(a.mean()), paired(a, b, new.about.seed))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a data set as rows of a bundle and back; -1 where there is none."""

    users: Tensor  # by row of the data set
    items: Tensor  # by row of the data set
    items_back: Tensor  # by row of the bundle

    @classmethod
    def of(cls, bundle: Recommender, dataset: Dataset) -> "_Rows":
        known, given = bundle.catalog.vocabulary, dataset.items
        users = bundle.users.rows(dataset.users.ids.to_pylist())
        items, back = known.rows(given.ids.to_pylist()), given.rows(known.ids.to_pylist())
        return cls(*map(torch.from_numpy, (users, items, back)))

    def query(self, query: Query) -> Query:
        """The same requests in the rows of the bundle; items that it does not know are left out of histories."""
        histories = [self.items[history[history >= 0]] for history in query.history]
        known = [history[history != UNKNOWN].tolist() for history in histories]
        return Query.of(known, self.users[query.user].tolist(), query.time.tolist(), query.seed.tolist())

    def back(self, slates: Tensor) -> Tensor:
        """Slates of the bundle in the rows of the data set."""
        return self.items_back[slates.clamp(min=0)].masked_fill(slates < 0, UNKNOWN)


def requests_new_to(old: Recommender, dataset: Dataset, requests: HeldOut) -> HeldOut:
    """The requests whose relevant items the old measured pipeline was not trained on; none at all is an error."""
    found = in_rows_of(old, dataset)
    trained = trained_events(old.histories, found.events)[found.users.rows_of(dataset.users)]  # [U]
    items = old.catalog.vocabulary.rows(dataset.items.ids.to_pylist())
    known = np.concatenate([[0], (items[dataset.events.items] != UNKNOWN).cumsum()])
    before_cut = known[requests.cuts] - known[requests.starts]  # events with items that the old bundle knows
    new = np.flatnonzero(before_cut >= trained[requests.users])
    if not len(new):
        raise DataError(
            f"{dataset.name}: expected validation requests that the bundle was not trained on, got none among "
            f"{len(requests):,}, so a new bundle cannot be compared; add newer events with: shortlist data append DATA "
            "NEW_EVENTS, or train without a comparison: shortlist train RECIPE --data DATA --out FOLDER"
        )
    return requests.take(new)
