"""Two systems on the same events: differences of their metrics by segment, with paired intervals over users."""

from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.evaluate.online.online_test import OnlineTest
from shortlist.evaluate.online.ranks import OnlineRanks
from shortlist.evaluate.online.segments import segments
from shortlist.evaluate.online.summary import check_events
from shortlist.evaluate.online.user_means import UserMeans, user_means
from shortlist.evaluate.online.values import event_values, metric_names
from shortlist.metrics.estimate import DRAWS


@dataclass(frozen=True)
class PairedDifference:
    """The metric of system a minus that of system b in one segment."""

    segment: str
    kind: str
    metric: str
    means: UserMeans  # of the differences


def paired_differences(
    a: OnlineRanks,
    b: OnlineRanks,
    test: OnlineTest,
    threshold: int | None = None,
    k: int = 10,
    samples: int = DRAWS,
    seed: int = 0,
) -> tuple[PairedDifference, ...]:
    """Differences a - b by segment, event-weighted and user-weighted, with paired 95 % bootstrap intervals over users.

    Drawn ranks of both systems are among the same negatives; an event without them in one system is left out.
    """
    check_events(a, test)
    check_events(b, test)
    if a.n_neg and b.n_neg and a.n_neg != b.n_neg:
        raise ConfigError(
            f"paired differences: expected as many negatives for both systems, got {a.n_neg} and {b.n_neg}"
        )
    first, second = event_values(a, k), event_values(b, k)
    found = []
    for segment, inside in segments(test, threshold).items():
        if not inside.any():
            continue
        inner = {kind: (first[kind] - second[kind])[inside] for kind in first}
        for kind, means in user_means(test.users[inside], inner, seed, samples).items():
            pairs = zip(metric_names(k), means, strict=True)
            found += [PairedDifference(segment, kind, metric, one) for metric, one in pairs]
    return tuple(found)
