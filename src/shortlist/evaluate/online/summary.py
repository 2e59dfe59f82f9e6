"""Metrics of an online evaluation by segment of users, with intervals over users."""

from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.evaluate.online.ranks import OnlineRanks
from shortlist.evaluate.online.segments import segments
from shortlist.evaluate.online.user_means import UserMeans, user_means
from shortlist.evaluate.online.values import event_values, metric_names
from shortlist.metrics.estimate import DRAWS


@dataclass(frozen=True)
class SegmentMetric:
    """One metric in one segment: "raw", "excl", "sampled" or "expected" ranks, "mrr" or "recall@k"."""

    segment: str
    kind: str
    metric: str
    means: UserMeans


@dataclass(frozen=True)
class OnlineSummary:
    """All metrics of an online evaluation; a segment without events is left out."""

    metrics: tuple[SegmentMetric, ...]
    threshold: int | None
    n_items: int
    n_neg: int

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the segments in order."""
        return tuple(dict.fromkeys(one.segment for one in self.metrics))

    def of(self, segment: str = "all", kind: str = "raw", metric: str = "mrr") -> UserMeans:
        """The means of one metric."""
        for one in self.metrics:
            if (one.segment, one.kind, one.metric) == (segment, kind, metric):
                return one.means
        known = sorted({(one.kind, one.metric) for one in self.metrics})
        raise ConfigError(
            f"online summary: expected a segment of {', '.join(self.segments)}, with ranks and metric of {known}, got "
            f"{(segment, kind, metric)}"
        )


def summary(
    ranks: OnlineRanks,
    test: OnlineTest,
    threshold: int | None = None,
    k: int = 10,
    samples: int = DRAWS,
    seed: int = 0,
) -> OnlineSummary:
    """MRR and recall@k by segment, event-weighted and user-weighted, with 95 % bootstrap intervals over users.

    A user is active if he has more than `threshold` training events.
    """
    check_events(ranks, test)
    values, found = event_values(ranks, k), []
    for segment, inside in segments(test, threshold).items():
        if not inside.any():
            continue
        inner = {kind: columns[inside] for kind, columns in values.items()}
        for kind, means in user_means(test.users[inside], inner, seed, samples).items():
            pairs = zip(metric_names(k), means, strict=True)
            found += [SegmentMetric(segment, kind, metric, one) for metric, one in pairs]
    return OnlineSummary(tuple(found), threshold, ranks.n_items, ranks.n_neg)


def check_events(ranks: OnlineRanks, test: OnlineTest) -> None:
    """Ranks and test must be of the same events."""
    if len(ranks.raw) != len(test) or ranks.n_items != test.n_items:
        raise ConfigError(
            f"online summary: expected ranks of {len(test)} events and {test.n_items} items, got {len(ranks.raw)} and "
            f"{ranks.n_items}; pass the test that the ranks are of"
        )
