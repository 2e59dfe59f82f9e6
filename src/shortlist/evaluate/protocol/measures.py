"""Which metrics an evaluation computes, at which cut-offs, and which of them decides."""

from collections.abc import Sequence
from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.metrics.ranking import METRICS

KS = (10, 20)
SLATE = max(KS)  # items of a slate, unless other cut-offs are chosen
CATALOG = ("coverage", "gini")  # have a value for all slates together, none per user
NAMES = (*METRICS, "novelty", *CATALOG)
ON_REQUEST = ("ndcg_hits",)  # computed only where chosen: one more hit can lower it
USUAL = tuple(name for name in NAMES if name not in ON_REQUEST)
HEADLINE = ("recall", "ndcg", "precision", "hit_rate", "mrr")  # with paired tests, unless metrics are chosen
MOST = 1000  # the largest cut-off


@dataclass(frozen=True)
class Measures:
    """Names of metrics, cut-offs, the metric that decides, and those with paired tests against every baseline."""

    names: tuple[str, ...]
    ks: tuple[int, ...]
    metric: str  # like "recall@20"
    tested: tuple[str, ...]

    @property
    def slate(self) -> int:
        """Items per slate: the largest cut-off."""
        return max(self.ks)


def choose_measures(
    metrics: str | Sequence[str] | None = None,
    at: str | int | Sequence[int] | None = None,
    metric: str | None = None,
) -> Measures:
    """Check a choice of metrics and cut-offs; the usual metrics, all but `ndcg_hits`, at 10 and 20 without one.

    The first metric at the largest cut-off decides, recall@20 without a choice, unless `metric` is given.
    """
    names, ks = _names(metrics), _cuts(at)
    if metric is not None:
        word, cut = _deciding(metric)
        names = names if word in names else (word, *names)
        ks = tuple(sorted({*ks, cut}))
    ranked = [name for name in (HEADLINE if metrics is None else names) if name in METRICS]
    if not ranked:
        raise ConfigError(
            f"--metrics: expected at least one of {', '.join(METRICS)}, which can decide between systems, got "
            f"{', '.join(names)}"
        )
    decides = metric or f"{ranked[0]}@{max(ks)}"
    tested = (f"{name}@{max(ks)}" for name in ranked[: len(HEADLINE)])
    return Measures(names, ks, decides, tuple(dict.fromkeys((decides, *tested))))


def _names(metrics: str | Sequence[str] | None) -> tuple[str, ...]:
    if metrics is None:
        return USUAL
    given = metrics.split(",") if isinstance(metrics, str) else metrics
    names = tuple(dict.fromkeys(name.strip().lower().replace("-", "_") for name in given))
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise ConfigError(
            f"--metrics: expected some of {', '.join(NAMES)}, like --metrics recall,ndcg; got "
            f"{', '.join(map(repr, unknown)) or 'none'}"
        )
    return names


def _cuts(at: str | int | Sequence[int] | None) -> tuple[int, ...]:
    if at is None:
        return KS
    given = at.split(",") if isinstance(at, str) else [at] if isinstance(at, int) else at
    cuts = [str(cut).strip() for cut in given]
    if not cuts or not all(_is_cut(cut) for cut in cuts):
        raise ConfigError(f"--at: expected cut-offs from 1 to {MOST}, like --at 5,10,50; got {at!r}")
    return tuple(sorted({int(cut) for cut in cuts}))


def _deciding(metric: str) -> tuple[str, int]:
    word, _, cut = metric.partition("@")
    if word not in METRICS or not _is_cut(cut):
        raise ConfigError(
            f"--metric: expected one of {', '.join(METRICS)} with a cut-off up to {MOST}, like recall@20; got "
            f"{metric!r}"
        )
    return word, int(cut)


def _is_cut(text: str) -> bool:
    return text.isdecimal() and text.isascii() and 0 < int(text) <= MOST
