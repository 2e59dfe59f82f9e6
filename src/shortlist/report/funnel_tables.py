"""Tables of a funnel as one system: utility lost per stage, agreement of stages, reveal ratio of nominators."""

from collections.abc import Mapping, Sequence

from shortlist.evaluate.funnel import FunnelMetrics, RevealRatio, StageAgreement
from shortlist.report.page import Html, Section, interval, table


def funnel_section(funnel: FunnelMetrics) -> Section:
    """The funnel as one system: utility lost per stage, agreement of stages, reveal ratios."""
    stages = [
        [
            one.name,
            with_bounds(interval(one.recall)),
            one.best_utility,
            with_bounds(interval(one.utility_lost)),
        ]
        for one in funnel.stages
    ]
    return Section(
        "The funnel as one system",
        [
            f"Recall@k@{funnel.slots}, the share of the relevant items of a request in its slate: "
            f"{interval(funnel.joint_recall)}. The best utility of a stage is the number of relevant items among its "
            f"candidates, at most {funnel.slots}; before the first stage it is {funnel.input_utility:.4f} per request.",
            table(["stage", "recall after", "best utility after", "utility lost"], stages),
            *agreement_parts(funnel.agreement),
            *reveal_parts(funnel.nominators),
        ],
    )


def agreement_parts(agreement: Sequence[StageAgreement]) -> list[Html | str]:
    """How far every stage keeps the order before it."""
    rows = [
        [
            f"{one.first}, {one.second}",
            one.requests,
            *(with_bounds(interval(x)) for x in (one.share_kept, one.tau_b, one.rbo)),
        ]
        for one in agreement
    ]
    return [
        "How far a stage keeps the order of the last one that scored its candidates: the share of the best of the "
        "first that the second keeps, Kendall's tau-b, rank-biased overlap.",
        table(["stages", "requests", "best kept", "tau-b", "overlap"], rows),
    ]


def reveal_parts(nominators: Mapping[str, RevealRatio], revealed: str = "served") -> list[Html | str]:
    """How much of what every nominator returns is served, or shown."""
    rows = [
        [
            name,
            round(own.returned, 1),
            *map(_percent, (own.reveal_yield, own.reveal_yield_split)),
            *map(_percent, (own.reveal_share, own.reveal_share_split)),
        ]
        for name, own in nominators.items()
    ]
    return [
        f"Reveal ratio of nominators: yield is {revealed} over returned, share is {revealed} over all {revealed}. An "
        "item of m nominators counts fully for each, or 1 / m (split).",
        table(["nominator", "returned", "yield", "yield, split", "share", "share, split"], rows),
    ]


def with_bounds(text: str) -> Html:
    """A mean with its interval in small print below it."""
    mean, _, bounds = text.partition(" ")
    return Html(f"{mean}<br><small>{bounds}</small>")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.2%}"
