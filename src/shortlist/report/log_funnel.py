"""The page of the funnel of a full-stage log."""

from collections.abc import Sequence

from shortlist.diagnose.log.funnel import LogFunnel
from shortlist.diagnose.log.relevance import ModelledUtility
from shortlist.diagnose.log.selection import SelectionModel
from shortlist.metrics.funnel.selection_auc import AucEstimate
from shortlist.report.funnel_tables import agreement_parts, reveal_parts
from shortlist.report.page import Html, Section, facts, figure, folded, interval, page, table
from shortlist.report.plots import bars, whiskers

WITHIN = "UAUC and WUAUC compare candidates of one request; UAUC is the mean over requests, WUAUC weights by pairs."


def log_funnel_page(found: LogFunnel, name: str) -> str:
    """One HTML document: the stages first, then agreement, AUCs, selection models and reveal ratios."""
    rest = folded(
        [_utility(found.utility), _agreement(found), _aucs(found), _selection(found), _reveal(found)]
    )
    return page(f"Full-stage log {name!r}", [_summary(found), *rest])


def _summary(found: LogFunnel) -> Section:
    counts = {
        "requests": found.requests,
        "logged candidates": found.candidates,
        "sampled requests": found.sampled,
        "served": found.served,
        "positive labels": found.positives,
        "negative labels": found.negatives,
    }
    rows = [
        [one.name, round(one.entered, 1), round(one.kept, 1), round(one.filtered, 1)] for one in found.stages
    ]
    kept = [(one.name, one.kept) for one in found.stages]
    parts: list[Html | str] = [
        facts(counts),
        figure(bars(kept, "candidates per request after the stage"), "The funnel as it was served."),
        table(["stage", "candidates in", "out", "removed by a filter"], rows),
    ]
    listed = (*found.notes, *(one for own in found.problems.examples.values() for one in own))
    return Section("Summary", [*parts, *([table(["note"], [[text] for text in listed])] if listed else [])])


def _utility(utility: ModelledUtility | None) -> Section | None:
    if utility is None:
        return None
    line = utility.calibration
    lost = [(one.name, one.lost.mean) for one in utility.stages]
    spread = [(one.lost.high - one.lost.low) / 2 for one in utility.stages]
    rows = [[one.name, one.best_utility, interval(one.lost)] for one in utility.stages]
    return Section(
        "Utility lost per stage",
        [
            f"Expected positives per request that {utility.slots} slots could have with the candidates after each "
            f"stage, by a model of positive feedback; before the first stage {utility.input_utility:.3f}. Labels exist "
            "for shown candidates only, so for others the model extrapolates. What retrieval misses is not in the log.",
            figure(
                bars(lost, "expected positives lost per request", spread),
                "With 95 % intervals over requests.",
            ),
            table(["stage", "best utility after", "lost"], rows),
            f"The model on shown candidates of {utility.requests:,} later requests: AUC {utility.auc:.3f}, mean "
            f"prediction {line.predicted:.3f}, observed {line.observed:.3f}, calibration error "
            f"{line.expected_error:.3f}, slope {line.slope:.2f}.",
        ],
    )


def _agreement(found: LogFunnel) -> Section | None:
    return Section("Agreement of stages", agreement_parts(found.agreement)) if found.agreement else None


def _reveal(found: LogFunnel) -> Section:
    return Section("Reveal ratio of nominators", reveal_parts(found.nominators, found.revealed_by))


def _aucs(found: LogFunnel) -> Section | None:
    if not found.score_aucs:
        return None
    rows = [
        [one.stage, one.target, one.rows, *map(_estimate, (one.auc.auc, one.auc.uauc, one.auc.wuauc))]
        for one in found.score_aucs
    ]
    return Section(
        "AUC of stage scores",
        [
            "How well the score of a stage predicts what happens to its inputs: served; shown with positive feedback, "
            "all others of the input being negatives; positive among those shown. Candidates are weighted by 1 / "
            f"incl_prob; errors are over requests. {WITHIN}",
            table(["stage", "target", "rows", "AUC", "UAUC", "WUAUC"], rows),
        ],
    )


def _selection(found: LogFunnel) -> Section | None:
    if not found.selection:
        return None
    return Section(
        "Selection models",
        [
            "Models that predict whether a stage keeps a candidate, fitted on earlier requests and measured on later "
            "ones. A high AUC shows that the choice can be predicted, not that it is independent of the other "
            "candidates: the set gap is what mean, maximum and z-score within the request add to the AUC. "
            "Scores: of the stage and those before it; their gap is the measure. Means: of the item and of the user in "
            "earlier requests; their gap also holds what the score itself adds.",
            figure(
                _selection_plot(found.selection),
                "AUC on later requests, ± two standard errors over requests.",
            ),
            table(
                [
                    "stage",
                    "features",
                    "AUC",
                    "UAUC",
                    "WUAUC",
                    "log loss",
                    "calibration error",
                    "slope",
                    "set gap",
                ],
                map(_selection_row, found.selection),
            ),
        ],
    )


def _selection_plot(models: Sequence[SelectionModel]) -> str:
    """AUC of both models by stage, a series for each set of features."""
    stages, series = (
        list(dict.fromkeys(one.stage for one in models)),
        dict[str, list[tuple[float, float, float]]](),
    )
    for one in models:
        for name, own in (
            (one.features, one.report.pointwise),
            (f"{one.features} and set", one.report.set_aware),
        ):
            points = series.setdefault(name, [(0.0, 0.0, 0.0)] * len(stages))
            points[stages.index(one.stage)] = _point(own.auc.auc)
    return whiskers(stages, series, "AUC")


def _selection_row(one: SelectionModel) -> list[object]:
    own, line = one.report.pointwise.auc, one.report.pointwise.calibration
    return [
        one.stage,
        one.features,
        *(f"{value.value:.4f}" for value in (own.auc, own.uauc, own.wuauc)),
        round(line.log_loss, 4),
        round(line.expected_error, 4),
        round(line.slope, 3),
        f"{one.report.gap:+.4f} ± {one.report.error:.4f}",
    ]


def _estimate(one: AucEstimate) -> str:
    return f"{one.value:.4f} ± {one.request_error:.4f}"


def _point(one: AucEstimate) -> tuple[float, float, float]:
    return one.value, one.value - 2 * one.request_error, one.value + 2 * one.request_error
