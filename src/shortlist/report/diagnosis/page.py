"""The page of a diagnosis: which stage loses relevant items, why, and what to change."""

from collections.abc import Sequence

from shortlist.diagnose.diagnosis import Diagnosis, Finding
from shortlist.diagnose.findings.summary import sample_note, summary
from shortlist.diagnose.findings.text import (
    counted,
    percent,
    points,
    signed,
    unbroken,
    with_interval,
)
from shortlist.evaluate.lookup import UserLookup
from shortlist.metrics.estimate import Estimate
from shortlist.report.diagnosis.budget import budget_section
from shortlist.report.diagnosis.knobs import knobs
from shortlist.report.diagnosis.nominators import nominators
from shortlist.report.diagnosis.parts import calibration, coverage, segments, verdict
from shortlist.report.diagnosis.plots import gains, waterfall
from shortlist.report.diagnosis.shift import shift
from shortlist.report.funnel import Funnel, FunnelStage, funnel_figure
from shortlist.report.funnel_tables import funnel_section, with_bounds
from shortlist.report.lookup import SCRIPT, lookup_section
from shortlist.report.page import Html, Section, escaped, facts, figure, folded, page, table
from shortlist.report.tree.page import trees_sections
from shortlist.train.bundle import describe_split

POINTS = (
    "Loss: share of all relevant items. Gain: of recall, in points, with its 95 % interval; with 0 in the interval it "
    "is not significant."
)

KINDS = {
    "nominator": "nominators (candidate generators) retrieve some hundred items of the catalogue, side by side; "
    "together they are the pool",
    "filter": "filters remove items that must not be shown",
    "hydrator": "hydrators add columns",
    "scorer": "scorers (rankers) score each candidate and pass on the best",
    "selector": "a selector chooses the slate, often with diversity",
}


def diagnosis_page(diagnosis: Diagnosis, users: UserLookup | None = None) -> str:
    """One HTML document; `users` can be looked up in it."""
    rest = folded(
        [
            _words(diagnosis),
            _losses(diagnosis),
            _gains(diagnosis),
            knobs(diagnosis),
            verdict(diagnosis),
            nominators(diagnosis),
            None if diagnosis.funnel is None else funnel_section(diagnosis.funnel),
            segments(diagnosis),
            coverage(diagnosis),
            shift(diagnosis),
            calibration(diagnosis),
            None if diagnosis.budget is None else budget_section(diagnosis.budget),
            *trees_sections(diagnosis.trees),
            _measured(diagnosis),
        ]
    )
    about = diagnosis.about
    title = f"Diagnosis of {about.name!r} on {about.data!r}" if about.data else f"Diagnosis of {about.name!r}"
    lookup = [] if users is None else [lookup_section(users)]
    return page(title, [_summary(diagnosis), *lookup, *rest], "" if users is None else SCRIPT)


def _summary(diagnosis: Diagnosis) -> Section:
    dark = "the stage that decides most avoidable losses"
    drawn = [funnel_figure(funnel_of(diagnosis), sample_note(diagnosis), dark)] if diagnosis.relevant else []
    found: list[Html | str] = [findings_table(diagnosis), POINTS] if diagnosis.findings else []
    warnings = [f"Warning: {text}" for text in diagnosis.warnings]
    return Section("Summary", [*drawn, *summary(diagnosis), *found, *warnings])


def funnel_of(diagnosis: Diagnosis) -> Funnel:
    """The stages of a diagnosis as a funnel."""
    stages = tuple(
        FunnelStage(one.name, one.kind, one.candidates, one.entered, one.survived, one.removed)
        for one in diagnosis.stages
    )
    return Funnel(diagnosis.relevant, stages, _worst(diagnosis))


def findings_table(diagnosis: Diagnosis) -> Html:
    """A row per finding: the loss, the knob, its measured gain with interval."""
    rows = [
        [
            finding.stage,
            percent(finding.share) if finding.share else "–",
            finding.setting or _first_sentence(finding.knob),
            "–" if finding.gain is None else _gain(finding.gain),
        ]
        for finding in diagnosis.findings
    ]
    return table(["stage", "avoidable loss", "knob", "measured gain"], rows)


def _gain(gain: Estimate) -> Html:
    """A gain with its interval in small print below it."""
    bounds = "" if gain.low is None or gain.high is None else f"[{signed(gain.low)}, {signed(gain.high)}]"
    return with_bounds(f"{_signed(gain.mean)} {bounds}")


def _first_sentence(text: str) -> str:
    head, stop, _ = text.partition(". ")
    return f"{head}." if stop else head


def _words(diagnosis: Diagnosis) -> Section:
    return Section(
        "Findings in words",
        [
            f"{_kinds(diagnosis)} A relevant item is one the user interacted with after the moment of the request; "
            "the pipeline has not seen it. Every relevant item is returned in the slate or lost at exactly one stage.",
            "Brackets hold 95 % intervals over users. A point is one percentage point.",
            *_numbered(diagnosis.findings),
        ],
    )


def _kinds(diagnosis: Diagnosis) -> str:
    """The kinds of stages of this pipeline, each explained once."""
    own = {stage.kind for stage in diagnosis.stages}
    text = "; ".join(meaning for kind, meaning in KINDS.items() if kind in own)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _numbered(findings: Sequence[Finding]) -> list[Html]:
    return [
        Html(
            f"<p><strong>{number}. {escaped(finding.what)}</strong><br>{escaped(finding.why)}"
            f"<br>→ {escaped(finding.knob)}</p>"
        )
        for number, finding in enumerate(findings, start=1)
    ]


def _losses(diagnosis: Diagnosis) -> Section | None:
    stages, relevant = diagnosis.stages, diagnosis.relevant
    if not stages or not relevant:
        return None
    worst = _worst(diagnosis)
    heads = [
        "stage",
        "kind",
        "entered",
        "items lost",
        "of all relevant",
        "avoidable",
        "decided here",
        "of those entered",
        "candidates",
    ]
    rows = [
        [
            unbroken(stage.name + (" ← largest" if stage.name == worst else "")),
            stage.kind,
            stage.entered,
            stage.lost,
            unbroken(with_interval(stage.share)),
            percent(stage.avoidable / relevant),
            percent(diagnosis.decided[stage.name] / relevant),
            percent(stage.conditional),
            f"{stage.candidates:,.0f}",
        ]
        for stage in stages
    ]
    return Section(
        "Where relevant items are lost",
        [
            figure(
                waterfall(stages, relevant, worst),
                "From top to bottom: each coloured bar is the share of all relevant items that a stage loses, with "
                "its interval; grey is what it passes on. Hatched: unavoidable, because the user has more relevant "
                "items than the slate has places. Orange: the stage that decides most avoidable losses. "
                f"{_counts(diagnosis)}",
            ),
            table(heads, rows),
            "Avoidable: lost here although the slate had a place for the item. Decided here: avoidable losses by the "
            "choice, the rule or the order of this stage, also where a later stage only cuts in its order; negative: "
            "it keeps more relevant items than the order before it. Candidates: per request, after the stage. "
            f"With slates of {diagnosis.k} recall is at most {percent(diagnosis.max_recall)}.",
            f"The account is exact: {relevant:,} relevant = {relevant - diagnosis.returned:,} lost + "
            f"{diagnosis.returned:,} returned. Precision@1 is {with_interval(diagnosis.precision_at_1)}.",
        ],
    )


def _gains(diagnosis: Diagnosis) -> Section | None:
    if not diagnosis.stages or not diagnosis.relevant:
        return None
    rows = [
        [
            stage.name,
            _or_dash(stage.what_if.oracle),
            _or_dash(stage.what_if.order),
            _signed(stage.what_if.same_rates),
            _signed(stage.what_if.ceiling),
        ]
        for stage in diagnosis.stages
    ]
    heads = ["stage", "oracle", "oracle with highest scores", "estimate by rates", "ceiling"]
    return Section(
        "What would a perfect stage bring?",
        [
            "Each stage was replaced in turn by an oracle that keeps all relevant items first. Later stages ran again "
            "as trained, because they may lose what the oracle keeps. An oracle knows the held-out answers "
            "and cannot be deployed; the other stages stay as trained. It is an upper bound on what improving the "
            "stage can bring, and shows where work would be wasted.",
            figure(
                gains(diagnosis.stages, _worst(diagnosis)),
                "Bars: measured gain of recall when this stage alone is an oracle, with interval. Triangle: the same "
                "when it also gives relevant items the highest scores. Dashed: ceiling, if later stages lost none of "
                "what it keeps. Diamond: estimate by rates, if those items survived later stages as often as the "
                f"others; they are often harder, so trust the bars. {_counts(diagnosis)}",
            ),
            table(heads, rows),
        ],
    )


def _or_dash(gain: Estimate | None) -> str:
    return "–" if gain is None or gain.mean is None else unbroken(points(gain))


def _signed(gain: float | None) -> str:
    return "–" if gain is None else signed(gain)


def _measured(diagnosis: Diagnosis) -> Section:
    about, sample = diagnosis.about, diagnosis.sample
    rows = {
        "pipeline": diagnosis.pipeline,
        "model": about.version,
        "data": about.data,
        "fingerprint": about.fingerprint,
        "split": describe_split(about.split) if about.split else "",
        "package": about.package,
    }
    return Section(
        "How it was measured",
        [
            f"{diagnosis.users:,} of {sample.held_out:,} {sample.part} with "
            f"{counted(diagnosis.relevant, 'relevant item')}, sampled with seed {sample.seed}; none of these items was "
            f"in the training data. Knobs and slates without a nominator were measured on {sample.knobs:,} of these "
            f"users, the whole catalogue was scored for {sample.full_catalog:,}. Recall is the mean over users of each "
            "user's recall. "
            "Intervals are a bootstrap over users with 1,000 draws; with fewer than 30 users there are none. They do "
            "not include the variation between training seeds.",
            "Oracles know the held-out answers and cannot be deployed.",
            facts(
                {
                    "users": diagnosis.users,
                    "relevant items": diagnosis.relevant,
                    "seed of the sample": diagnosis.seed,
                    "seconds": None if diagnosis.seconds is None else round(diagnosis.seconds, 1),
                    "training seed": about.seed,
                }
            ),
            table(["", ""], [[name, value] for name, value in rows.items() if value]),
        ],
    )


def _worst(diagnosis: Diagnosis) -> str:
    worst = diagnosis.largest_loss
    return "" if worst is None else worst.name


def _counts(diagnosis: Diagnosis) -> str:
    return f"{diagnosis.users:,} {diagnosis.sample.part}, {counted(diagnosis.relevant, 'relevant item')}."
