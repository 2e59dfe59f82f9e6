"""What each nominator brings to the pool, and how the slots could be split better: typed results."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shortlist.diagnose.not_measured import NotMeasured
from shortlist.metrics.estimate import Estimate


@dataclass(frozen=True)
class NominatorCost:
    """Milliseconds of single requests on one thread: medians, with twice the slots taken into account by a line."""

    ms: float  # at the current limit, with the scores it gives to the candidates of others
    call_ms: float  # of the part that does not depend on the limit
    slot_ms: float  # of one more slot

    def at(self, slots: int) -> float:
        """Milliseconds with another limit; nothing without slots."""
        return self.call_ms + self.slot_ms * slots if slots else 0.0


@dataclass(frozen=True)
class NominatorShare:
    """Recall of the pool that is due to one nominator, by four definitions.

    `leave_one_out` <= `shapley` <= `solo`, and `refilled` <= `leave_one_out`; Shapley values add up to the recall of
    the pool.
    """

    solo: Estimate  # with this nominator alone
    shapley: Estimate  # an item of m nominators gives 1 / m to each
    leave_one_out: Estimate  # what no other nominator finds
    refilled: Estimate | None = None  # lost without it when the others get slots for as many candidates


@dataclass(frozen=True)
class Reveal:
    """Items of slates by nominator, as shares of all items of the slates; None where all slates are empty.

    `share` counts an item for each of its nominators, `first` for the one with the best rank, `split` 1 / m for each of
    m, `alone` where no other nominates it. `relevant` is the share of relevant items among those of `share`.
    """

    share: Estimate
    first: Estimate
    split: Estimate
    alone: Estimate
    relevant: Estimate
    efficiency: float | None  # `split` over the nominator's share of all slots


@dataclass(frozen=True)
class NominatorValue:
    """One nominator of the pool; recall is the mean over users, before the first cut."""

    limit: int  # slots
    longest: int  # slots up to which its list was measured
    returned: float  # candidates per request
    found: NominatorShare
    reveal: Reveal
    returned_shapley: Estimate | None = (
        None  # Shapley value of the recall of slates; None where not asked for
    )
    # Times differ from run to run and take no part in comparisons.
    cost: NominatorCost | None = field(default=None, compare=False)

    @property
    def points_per_ms(self) -> float | None:
        """Recall that only this nominator brings, per millisecond."""
        alone = self.found.leave_one_out.mean
        return None if alone is None or self.cost is None or self.cost.ms <= 0 else alone / self.cost.ms


@dataclass(frozen=True)
class SegmentNomination:
    """Users of similar history length: what each nominator finds for them, and the limits learned for them."""

    name: str
    users: int
    relevant: int
    recall: Estimate  # of the pool
    found: Mapping[str, NominatorShare]
    limits: Mapping[str, int]  # learned; empty where no split was learned
    gain: Estimate | None  # of pool recall with these limits, on users they were not learned on


@dataclass(frozen=True)
class SplitAdvice:
    """Other limits, learned on one half of the users and measured on the other."""

    current: Mapping[str, int]
    learned: Mapping[str, int]
    gain: Estimate  # of pool recall
    gain_by_segment: Estimate  # of pool recall, when every segment has limits of its own
    returned: Estimate  # gain of the recall of slates: the pipeline run again with the learned limits
    candidates: tuple[float, float]  # distinct candidates per request of the measured users, now and then
    users_fitted: int
    users: int
    budget_ms: float | None = None  # the limit of latency the split was learned under
    ms: tuple[float, float] | None = field(default=None, compare=False)  # of all nominators, now and then

    @property
    def changed(self) -> bool:
        """Whether any limit differs."""
        return dict(self.current) != dict(self.learned)


@dataclass(frozen=True)
class NominationReport:
    """All nominators of a pool, measured on the same requests in one pass."""

    requests: int
    users: int
    relevant: int
    recall: Estimate  # of the pool before its cut
    raw: float  # nominations per request
    distinct: float  # candidates per request
    nominators: Mapping[str, NominatorValue]
    overlap: Mapping[
        str, Mapping[str, float | None]
    ]  # share of the candidates of the first that the second has too
    segments: tuple[SegmentNomination, ...]
    split: SplitAdvice | NotMeasured  # with as many distinct candidates per request as now
    same_slots: (
        SplitAdvice | NotMeasured
    )  # with as many slots as now: less overlap gives later stages more to score
