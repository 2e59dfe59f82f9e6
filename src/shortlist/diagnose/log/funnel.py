"""`diagnose_log`: the funnel of a full-stage log in one pass, in bounded memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shortlist.diagnose.log.agreement import log_agreements
from shortlist.diagnose.log.relevance import ModelledUtility, modelled_utility
from shortlist.diagnose.log.sample import REQUESTS, RequestSample
from shortlist.diagnose.log.score_auc import ScoreAuc, score_aucs
from shortlist.diagnose.log.selection import SelectionModel, log_selection
from shortlist.diagnose.log.stage_rows import usable
from shortlist.diagnose.log.totals import FunnelTotals, LastNominations, by_funnel
from shortlist.errors import ConfigError, DataError
from shortlist.evaluate.funnel import RevealRatio, StageAgreement, reveal_ratios
from shortlist.feedback.join import labelled, labels_folder
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import FOREVER, LogReader
from shortlist.feedback.record import Funnel, LoggedRequests
from shortlist.progress import Progress, silent

WEEK = 7 * 86_400_000  # milliseconds
SHOWN_ONLY = (
    "labels exist for shown candidates only: a candidate that was dropped counts as not positive in the AUC for shown "
    "positives, and the utility lost comes from a model"
)


@dataclass(frozen=True)
class StageFlow:
    """Candidates per request before and after a stage, and those that a filter removed there."""

    name: str
    entered: float
    kept: float
    filtered: float


@dataclass(frozen=True)
class LogFunnel:
    """The requests of the most frequent funnel of a log; counts are of all of them, other figures of a sample."""

    requests: int
    candidates: int  # logged rows
    sampled: int  # requests
    served: int
    positives: int
    negatives: int
    revealed_by: str  # "shown", or "served" for a log without labels: what counts in the reveal ratio
    stages: tuple[StageFlow, ...]
    nominators: Mapping[str, RevealRatio]
    score_aucs: tuple[ScoreAuc, ...]
    agreement: tuple[StageAgreement, ...]
    selection: tuple[SelectionModel, ...]
    utility: ModelledUtility | None
    notes: tuple[str, ...]
    problems: Problems = field(default_factory=Problems)


def diagnose_log(
    root: Path | str,
    *,
    rule: int | None = None,
    requests: int = REQUESTS,
    since: int = -FOREVER,
    until: int = FOREVER,
    seed: int = 0,
    progress: Progress = silent,
) -> LogFunnel:
    """Measure the funnel of a full-stage log; candidates are weighted by 1 / incl_prob.

    `rule` is the version of the labels; by default the only one there is, and no labels where there are none. AUCs,
    agreement of stages, selection models and utility are those of a uniform sample of at most `requests`.
    """
    reader = LogReader(Path(root), since, until)
    rule = _rule(reader.root) if rule is None else rule
    totals: dict[Funnel, FunnelTotals] = {}
    sample = RequestSample(requests, seed)
    records = reader.requests() if rule is None else labelled(reader, rule)
    last = LastNominations()
    for number, record in enumerate(records, start=1):
        if _span(reader) > WEEK:
            last.add(record)
        for funnel, part in by_funnel(record):
            totals.setdefault(funnel, FunnelTotals(funnel, rule is not None)).add(part)
        sample.add(record)
        progress("read log", number, max(number, len(reader.pairs)))
    found = _log_funnel(reader, totals, sample.requests(), seed)
    return replace(found, notes=(*found.notes, *_forgotten(last)))


def _span(reader: LogReader) -> int:
    """Milliseconds between the first and the last request of the parts that are read."""
    times = [(pair.requests.min_ts, pair.requests.max_ts) for pair in reader.pairs]
    return max(high for _, high in times) - min(low for low, _ in times)


def _forgotten(last: LastNominations) -> Iterator[str]:
    """An alarm for items that no nominator returned in the last week."""
    if count := last.forgotten(WEEK):
        yield (
            f"{count} of {len(last.last)} logged items were nominated before, but by no nominator in the last 7 days: "
            "nothing new is learned about them; let nominators explore, or give some slots to other items"
        )


def _rule(root: Path) -> int | None:
    """The version of the labels of a log with labels of one rule, None without any."""
    folder = labels_folder(root, 0).parent
    rules = sorted(path.name.removeprefix("rule=") for path in folder.glob("rule=*"))
    if len(rules) > 1:
        raise ConfigError(
            f"{root}: the log has labels of several rules; choose one with --label-rule: {', '.join(rules)}"
        )
    return int(rules[0]) if rules else None


def _log_funnel(
    reader: LogReader, totals: Mapping[Funnel, FunnelTotals], sample: LoggedRequests | None, seed: int
) -> LogFunnel:
    if sample is None:
        raise DataError(
            f"{reader.root}: expected requests in the log, got none; check it with: shortlist log inspect {reader.root}"
        )
    total = max(totals.values(), key=lambda one: one.requests)
    names = total.funnel.stages
    own = usable(dict(by_funnel(sample)).get(total.funnel, sample.take(np.zeros(0, np.int64))))
    selection, notes = log_selection(own, names)
    utility = modelled_utility(own, names, seed) if len(own) else None
    return LogFunnel(
        total.requests,
        total.rows,
        len(own),
        total.served,
        total.positives,
        total.negatives,
        "shown" if total.labels else "served",
        _flows(total),
        reveal_ratios(total.funnel.nominators, total.channels, total.revealed, total.requests),
        score_aucs(own, names),
        log_agreements(own, names, seed),
        selection,
        utility,
        (*_notes(reader.root, total, list(totals.values()), utility), *notes),
        reader.problems,
    )


def _flows(total: FunnelTotals) -> tuple[StageFlow, ...]:
    columns = (total.entered, total.kept, total.filtered)
    rows = zip(*((one / max(total.requests, 1)).tolist() for one in columns), strict=True)
    return tuple(StageFlow(name, *row) for name, row in zip(total.funnel.stages, rows, strict=True))


def _notes(
    root: Path, total: FunnelTotals, every: list[FunnelTotals], utility: ModelledUtility | None
) -> Iterator[str]:
    """What limits the figures."""
    if not total.labels:
        yield f"the log has no labels: nothing is said about users; make them with: shortlist log join {root}"
    else:
        yield SHOWN_ONLY
    if total.labels and utility is None:
        yield "utility lost: too few positive and negative labels in earlier and later requests to fit a model"
    for other in every:
        if other is not total:
            yield f"{other.requests} requests of another funnel are left out: {' > '.join(other.funnel.stages)}"
    if len(total.policies) > 1:
        yield f"{len(total.policies)} combinations of versions of stages served the requests: figures mix them"
    if total.no_probability:
        yield f"{total.no_probability} candidates without an inclusion probability are left out"
