"""Logged requests as training data: ids become rows, and whatever cannot be used is counted and explained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shortlist.data import Vocabulary
from shortlist.errors import DataError
from shortlist.feedback.record import Array, LoggedRequests, concat
from shortlist.train.objectives.stage_log import StageLog

EXPLAINED = {
    "other_stages": "requests with another number of stages than {n_stages}: their S means something else",
    "unknown_user": "requests without a user, or with one that the model does not know",
    "unknown_item": "candidates that are not in the catalogue of the model",
    "filtered": "candidates that a filter removed: no stage ranked them below others",
    "no_probability": "candidates without an inclusion probability, which weighted training needs",
    "no_label": "served candidates without a label yet, or never shown: they stay, but no instance uses them",
    "unweighted": "candidates without an inclusion probability: they stay, and no candidate can be weighted",
}
STAY = ("no_label", "unweighted")  # what is counted but not left out


@dataclass(frozen=True)
class LeftOut:
    """What a log holds and what of it cannot be trained on, by reason."""

    requests: int
    candidates: int
    n_stages: int
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def explained(self) -> tuple[str, ...]:
        """One sentence per reason that occurred."""
        reasons = ((count, EXPLAINED[name]) for name, count in self.counts.items() if count)
        return tuple(f"{count} {text.format(n_stages=self.n_stages)}" for count, text in reasons)


def stage_log(
    records: LoggedRequests | Sequence[LoggedRequests],
    items: Vocabulary,
    users: Vocabulary,
    n_stages: int | None = None,
    weighted: bool = False,
) -> tuple[StageLog, LeftOut]:
    """Training data from logged requests with labels, and what was left out.

    `n_stages` is T, by default that of most requests. `weighted` leaves out candidates without an inclusion
    probability; otherwise one of them makes the whole log unweighted, because 1 would be wrong for a sample.
    """
    record = _joined(records).as_rows(items, users)
    last = _most_stages(record) if n_stages is None else n_stages
    kept, counts = usable_requests(record, last, weighted)
    return as_stage_log(kept, len(items), last), LeftOut(len(record), record.n_candidates, last, counts)


def usable_requests(
    record: LoggedRequests, n_stages: int, weighted: bool = False
) -> tuple[LoggedRequests, dict[str, int]]:
    """The requests and candidates to train on, of a record with rows for ids, and counts of all others."""
    used, counts = _whole_requests(record, n_stages)
    rows, row_counts = _usable_rows(used, weighted)
    kept = used.only(rows)
    return kept, counts | row_counts | {
        "no_label": int(((kept.stage == n_stages) & (kept.y < 0)).sum()),
        "unweighted": int((~np.isfinite(kept.incl_prob)).sum()),
    }


def as_stage_log(record: LoggedRequests, n_items: int, n_stages: int, scores: bool = False) -> StageLog:
    """Usable requests as plain arrays, with scores on demand; one unknown inclusion probability makes all unknown."""
    return StageLog(
        record.user_id.astype(np.int64),
        record.offsets,
        record.item_id.astype(np.int64),
        record.stage.astype(np.int64),
        record.y,
        n_items,
        n_stages,
        record.incl_prob if np.isfinite(record.incl_prob).all() else None,
        record.scores[:, :n_stages] if scores else None,
    )


def take_requests(log: StageLog, rows: Array) -> StageLog:
    """Some of the requests of a log, in this order."""
    counts = np.diff(log.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.arange(offsets[-1]) + np.repeat(np.asarray(log.offsets)[:-1][rows] - offsets[:-1], counts)
    names = ("item_id", "stage", "y", "incl_prob", "scores", "nomination", "strength")
    columns = {name: getattr(log, name) for name in names}
    moved: dict[str, Any] = {name: None if one is None else one[at] for name, one in columns.items()}
    return replace(log, user_id=log.user_id[rows], offsets=offsets, **moved)


def _joined(records: LoggedRequests | Sequence[LoggedRequests]) -> LoggedRequests:
    parts = [records] if isinstance(records, LoggedRequests) else list(records)
    if not sum(len(part) for part in parts):
        raise DataError("training from a log: expected at least one request, got none; check the time range")
    return concat(parts)


def _most_stages(record: LoggedRequests) -> int:
    return int(np.bincount(record.n_stages).argmax())


def _whole_requests(record: LoggedRequests, n_stages: int) -> tuple[LoggedRequests, dict[str, int]]:
    """The requests of known users with this number of stages."""
    other = record.n_stages != n_stages
    unknown = (record.user_id < 0) & ~other
    counts = {"other_stages": int(other.sum()), "unknown_user": int(unknown.sum())}
    return record.take(np.flatnonzero(~other & ~unknown)), counts


def _usable_rows(record: LoggedRequests, weighted: bool) -> tuple[Array, dict[str, int]]:
    """The candidates to train on; each other one counts under its first reason."""
    keep, counts = np.ones(record.n_candidates, bool), dict[str, int]()
    reasons = {
        "unknown_item": record.item_id < 0,
        "filtered": record.filtered,
        "no_probability": ~np.isfinite(record.incl_prob) & weighted,
    }
    for name, bad in reasons.items():
        counts[name] = int((bad & keep).sum())
        keep &= ~bad
    return np.flatnonzero(keep), counts
