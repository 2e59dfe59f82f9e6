"""The pipeline against single models on the same held-out requests; the better of them is what is saved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from shortlist.data import HeldOut, Query
from shortlist.data.held_out import Positions
from shortlist.grammar import Pipeline, Stage, bare
from shortlist.metrics.ranking import Relevant
from shortlist.metrics.significance import Interval, bootstrap, paired
from shortlist.pipeline import run
from shortlist.pipeline.about import Measured
from shortlist.pipeline.batch.held_out import in_batches, in_order
from shortlist.pipeline.offline import offline
from shortlist.pipeline.plan_report import ComparedModel, PlanReport
from shortlist.pipeline.recommender import resized
from shortlist.progress import Progress, silent
from shortlist.train.measure import CUT, MEASURED, SEED

PIPELINE = "pipeline"
STORED = {"item_knn": "item-knn"}  # name of the stage -> of the baseline in an evaluation
BASELINES = {"ease": "ease", "item_knn": "item-knn", "last_click": "last-click"}
"""Single models that every pipeline is compared with: name of the stage -> type."""

COUNTED = (PIPELINE, "last_click", "popular")  # an evaluation counts these itself


@dataclass(frozen=True, eq=False)
class PartSlates:
    """Slates of the pipeline and of every single model for the requests of one part of a split."""

    slates: Mapping[str, Tensor]  # [C, 20] by name; "pipeline" among them
    metrics: Mapping[str, Mapping[str, Tensor]]  # metric -> name -> value of each request [C]

    @property
    def measured(self) -> Measured:
        """The metrics of the pipeline, as `shortlist evaluate` gives them."""
        own = {f"{name}@{CUT}": bootstrap(values[PIPELINE], SEED) for name, values in self.metrics.items()}
        return Measured(len(self.slates[PIPELINE]), own)

    @property
    def baselines(self) -> dict[str, Tensor]:
        """The slates of the single models, under the names that `shortlist evaluate` gives them."""
        return {STORED.get(name, name): one for name, one in self.slates.items() if name not in COUNTED}


def part_slates(
    pipeline: Pipeline, others: Mapping[str, Stage], requests: HeldOut, progress: Progress = silent
) -> PartSlates:
    """Run the pipeline once: it and each of its nominators alone; `others` are run beside it."""
    sized = resized(offline(pipeline), CUT)
    single = {name: Pipeline((stage % CUT,)) for name, stage in others.items()}

    def answer(_: HeldOut, query: Query) -> dict[str, Tensor]:
        slate = run(sized, query)
        alone = {part.name: part.nominated.best(CUT) for part in slate.trace.steps[0].parts}
        items = {name: one.items.masked_fill(~one.valid, -1) for name, one in alone.items()}
        items |= {name: run(one, query).items for name, one in single.items()}
        return {name: _filled(one) for name, one in {PIPELINE: slate.items, **items}.items()}

    found = in_batches(answer, requests, progress, "measure")
    slates = {name: in_order([(rows, items[name]) for rows, items in found]) for name in found[0][1]}
    relevant = Relevant.of(requests.relevant())
    values = {name: relevant.metrics(one, MEASURED, (CUT,)) for name, one in slates.items()}
    metrics = {one: {name: own[f"{one}@{CUT}"] for name, own in values.items()} for one in MEASURED}
    return PartSlates(slates, metrics)


def _filled(items: Tensor) -> Tensor:
    return torch.nn.functional.pad(items[:, :CUT], (0, CUT - min(items.shape[1], CUT)), value=-1)


def compared(report: PlanReport, found: PartSlates, seed: int, rows: Positions | None = None) -> PlanReport:
    """The report with the recall@20 of the pipeline, of every single model, and paired differences.

    `rows` are the requests that decide; all without it.
    """
    recalls = {name: own if rows is None else own[rows] for name, own in found.metrics["recall"].items()}
    whole = recalls[PIPELINE]
    models = []
    for name, own in recalls.items():
        if name != PIPELINE:
            test = paired(whole, own, seed)
            difference = Interval(test.difference, test.low, test.high)
            models.append(ComparedModel(name, float(own.nanmean()), difference))
    models.sort(key=lambda one: -one.recall)
    return replace(report, requests=len(whole), recall=float(whole.nanmean()), compared=tuple(models))


def winner(report: PlanReport) -> str | None:
    """The single model that is saved instead of the pipeline, None where the pipeline is above all of them."""
    best = report.compared[0] if report.compared else None
    return best.name if best is not None and best.difference.mean <= 0 else None


def verdict(report: PlanReport, only: str | None = None) -> str:
    """What is saved and why, in one sentence; `only` is the nominator of a pipeline that has no other stage."""
    if not report.compared:
        what = f"{only} is saved: one nominator is all there is" if only else "the pipeline is saved"
        return f"{what}; there are no validation requests to compare it with single models"
    best = report.compared[0]
    if best.name == only:
        figures = f"recall@{CUT} {best.recall:.4f} on {report.requests:,} validation requests"
        return f"{only} is saved: one nominator is all there is ({figures}{_not_compared(report)})"
    low, high = best.difference.low, best.difference.high
    figures = (
        f"recall@{CUT} {report.recall:.4f} against {best.recall:.4f} of {best.name} on {report.requests:,} validation "
        f"requests, difference {best.difference.mean:+.4f} [{low:+.4f}, {high:+.4f}]"
    )
    if winner(report) is not None:
        figures += _not_compared(report)
        return f"the single model {best.name} is saved: the pipeline is not above it ({figures})"
    shown = "" if low > 0 else "; the interval contains 0"
    figures = f"{figures}{shown}{_not_compared(report)}"
    return f"the pipeline is saved: it is above every single model compared ({figures})"


def _not_compared(report: PlanReport) -> str:
    """The usual single models that were not compared."""
    missing = [name for name in BASELINES if name not in {one.name for one in report.compared}]
    return f"; not compared: {', '.join(missing)}" if missing else ""


def nominator_named(pipeline: Pipeline, name: str) -> Stage | None:
    """The nominator of this name without its limit, None if the pipeline has none."""
    return next((bare(one) for one in pipeline.nominators if one.title == name), None)
