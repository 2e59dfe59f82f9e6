"""Sums over the requests of a log that one funnel served: candidates of stages, labels, shown items of channels."""

from dataclasses import dataclass, field

import numpy as np

from shortlist.feedback.record import Array, Funnel, LoggedRequests


@dataclass
class FunnelTotals:
    """Sums of the requests of one funnel; those of candidates are weighted by 1 / incl_prob."""

    funnel: Funnel
    labels: bool  # whether the log was joined with its feedback, so that shown items are known
    requests: int = 0
    rows: int = 0
    no_probability: int = 0  # rows without an inclusion probability, which have no weight
    served: int = 0
    revealed: float = 0.0
    positives: int = 0
    negatives: int = 0
    entered: Array = field(init=False)  # [T]
    kept: Array = field(init=False)  # [T]
    filtered: Array = field(init=False)  # [T] removed by a filter
    channels: Array = field(init=False)  # [P, 3] items returned, revealed, and revealed with 1 / m each
    policies: set[tuple[int, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        depth = len(self.funnel.stages)
        self.entered, self.kept, self.filtered = (np.zeros(depth) for _ in range(3))
        self.channels = np.zeros((len(self.funnel.nominators), 3))

    def add(self, record: LoggedRequests) -> None:
        """Add requests that this funnel served."""
        depth = len(self.funnel.stages)
        weight = weights(record)
        self.requests += len(record)
        self.rows += record.n_candidates
        self.no_probability += int((weight == 0).sum())
        self.entered += np.maximum(record.n_in[:, :depth], 0).sum(0)
        self.kept += np.maximum(record.n_out[:, :depth], 0).sum(0)
        self.filtered += _filtered(record, weight, depth)
        self.policies |= set(map(tuple, np.unique(record.policy_version, axis=0).tolist()))
        self._add_labels(record)
        self._add_channels(record, weight)

    def _add_labels(self, record: LoggedRequests) -> None:
        self.served += int((record.position > 0).sum())
        self.positives += int((record.y == 1).sum())
        self.negatives += int((record.y == 0).sum())

    def _add_channels(self, record: LoggedRequests, weight: Array) -> None:
        bits = (record.channel_mask[:, None] >> np.arange(len(self.channels))) & 1  # [C, P]
        revealed = weight * ((record.shown == 1) if self.labels else (record.position > 0))
        split = revealed / np.maximum(bits.sum(1), 1)
        self.revealed += float(revealed.sum())
        self.channels += np.stack([weight @ bits, revealed @ bits, split @ bits], axis=1)


@dataclass
class LastNominations:
    """When each logged item was nominated last, to find items that no nominator returns any more."""

    last: dict[int | str, int] = field(default_factory=dict)  # id -> milliseconds
    end: int = 0  # time of the last request

    def add(self, record: LoggedRequests) -> None:
        items, at = np.unique(record.item_id, return_inverse=True)
        latest = np.zeros(len(items), np.int64)
        np.maximum.at(latest, at, record.ts_ms[record.request])
        for item, time in zip(items.tolist(), latest.tolist(), strict=True):
            self.last[item] = max(time, self.last.get(item, 0))
        self.end = max(self.end, int(record.ts_ms.max(initial=0)))

    def forgotten(self, span: int) -> int:
        """The number of items that were nominated before, but not in the last `span` milliseconds."""
        return sum(time < self.end - span for time in self.last.values())


def weights(record: LoggedRequests) -> Array:
    """1 / incl_prob of every candidate [C], 0 where it is not known."""
    known = np.isfinite(record.incl_prob) & (record.incl_prob > 0)
    weight: Array = np.zeros(record.n_candidates)
    weight[known] = 1 / record.incl_prob[known].astype(np.float64)
    return weight


def _filtered(record: LoggedRequests, weight: Array, depth: int) -> Array:
    """Candidates that filters of each stage removed [T]: counted where the log knows, else estimated."""
    counts = record.n_filtered[:, :depth]
    known: Array = np.asarray((counts >= 0).all(axis=1))
    removed = record.filtered & ~known[record.request] & (record.stage < depth)
    found: Array = np.bincount(record.stage[removed], weight[removed], depth)[:depth]
    found = found + counts[known].sum(axis=0)
    return found


def by_funnel(record: LoggedRequests) -> list[tuple[Funnel, LoggedRequests]]:
    """The requests of a record by the names of stages and nominators."""
    found: dict[Funnel, list[int]] = {}
    for number in np.unique(record.funnel).tolist():
        own = record.funnels[number]
        found.setdefault(Funnel(own.stages, own.nominators), []).append(number)
    if len(found) == 1:
        return [(next(iter(found)), record)]
    return [(key, record.take(np.flatnonzero(np.isin(record.funnel, own)))) for key, own in found.items()]
