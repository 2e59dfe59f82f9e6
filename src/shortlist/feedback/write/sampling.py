"""Stratified sampling of candidates by the stage they reached, with exact inclusion probabilities."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shortlist.errors import ConfigError
from shortlist.feedback.record import ALL, STRATUM, Array, LoggedRequests

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # increment of SplitMix64 (Steele et al., 2014)
RANDOM_BITS = np.uint64(44)  # of a sort key; the others number the stratum


@dataclass(frozen=True)
class Quota:
    """How many candidates of a stratum are kept: `sample` of them, or all if there are at most `all_up_to`."""

    sample: int | None = None  # None: all
    all_up_to: int = 0

    def __post_init__(self) -> None:
        if (self.sample is not None and self.sample < 0) or self.all_up_to < 0:
            raise ConfigError(f"log sample: expected counts of 0 or more, got {self}")

    def of(self, size: Array) -> Array:
        """Candidates kept from strata of these sizes."""
        if self.sample is None:
            return size
        return np.where(size <= self.all_up_to, size, np.minimum(size, self.sample))


DEFAULT_QUOTAS: Mapping[int, Quota] = {0: Quota(0), 1: Quota(40), 2: Quota(40, all_up_to=500)}
"""Of each stratum S = k; strata that are not named are kept whole."""
DEFAULT_FILTERED = Quota(5)


@dataclass(frozen=True)
class Sampling:
    """A quota for every stratum S = k, and one for those of a stratum that a filter removed.

    The sample of a request depends on its id, its seed and nothing else. No stage ranked a filtered candidate below
    others, so it must not take the place of one that was.
    """

    quotas: Mapping[int, Quota] = field(default_factory=lambda: dict(DEFAULT_QUOTAS))
    filtered: Quota = DEFAULT_FILTERED

    def kept(self, sizes: Array) -> Array:
        """Candidates kept of each stratum, of those that were ranked and of those that were filtered [R, T + 1, 2]."""
        ranked = [self.quotas.get(k, Quota()).of(sizes[:, k, 0]) for k in range(sizes.shape[1])]
        return np.stack([np.stack(ranked, axis=1), self.filtered.of(sizes[:, :, 1])], axis=2)


EVERYTHING = Sampling({}, Quota())


def sampled(record: LoggedRequests, sampling: Sampling) -> LoggedRequests:
    """A sample without replacement of each stratum, best candidates first, with its inclusion probabilities.

    Ranked and filtered candidates of a stratum are sampled apart. The record must hold every nominated candidate.
    """
    strata = record.depth + 1
    group = (record.request * strata + record.stage) * 2 + record.filtered
    sizes = np.bincount(group, minlength=len(record) * strata * 2)
    kept = sampling.kept(sizes.reshape(len(record), strata, 2)).reshape(-1)
    chosen = _chosen(record, group, sizes, kept)
    chosen = chosen[np.lexsort((_best_rank(record)[chosen], -record.stage[chosen], record.request[chosen]))]
    whole = (kept == sizes)[group[chosen]]
    share = (kept / np.maximum(sizes, 1)).astype(np.float32)[group[chosen]]
    return replace(
        record.only(chosen),
        incl_prob=share,
        reason=np.where(whole, ALL, STRATUM).astype(np.int8),
        complete=(kept == sizes).reshape(len(record), -1).all(axis=1),
    )


def _chosen(record: LoggedRequests, group: Array, sizes: Array, kept: Array) -> Array:
    """Positions of the sampled candidates: those with the smallest random keys of their stratum."""
    cut = (kept < sizes)[group]
    drawn = np.flatnonzero(cut)
    number = np.cumsum(kept < sizes)[group[drawn]].astype(np.uint64)  # of the strata that are cut
    keys = (number << RANDOM_BITS) | (random_keys(record)[drawn] >> np.uint64(20))
    drawn = drawn[np.argsort(keys, kind="stable")]
    inside = group[drawn]
    starts = np.searchsorted(inside, inside)  # first place of each stratum
    taken = drawn[np.arange(len(drawn)) - starts < kept[inside]]
    return np.concatenate([np.flatnonzero(~cut), taken])


def random_keys(record: LoggedRequests) -> Array:
    """64 random bits per candidate [C]: the stream of SplitMix64 that the id and the seed of its request start."""
    state = _mixed(record.request_id.astype(np.uint64)) ^ record.seed.astype(np.uint64)
    place = (np.arange(record.n_candidates) - record.offsets[record.request] + 1).astype(np.uint64)
    return _mixed(_mixed(state)[record.request] + place * GOLDEN)


def _mixed(bits: Array) -> Array:
    """The output function of SplitMix64; whole numbers wrap around."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = bits ^ (bits >> np.uint64(31))
    return mixed


def _best_rank(record: LoggedRequests) -> Array:
    """The rank of each candidate at the last stage that ranked it [C]."""
    ranks = np.zeros(record.n_candidates, np.int32)
    for column in range(record.depth):
        ranks = np.where(record.ranks[:, column] > 0, record.ranks[:, column], ranks)
    return ranks


def head_kept(request_ids: Array, rate: float) -> Array:
    """Which requests belong to the logged share: a hash of the id, so that every writer decides alike."""
    uniform = (_mixed(request_ids.astype(np.uint64) + GOLDEN) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return uniform < rate
