"""A diagnosis on a terminal: the summary, the table of stages, the findings, then the details."""

from collections.abc import Mapping

from rich.box import SIMPLE

from shortlist.cli.console.funnel_tables import funnel_table, reveal_table
from shortlist.cli.console.nominator_tables import nomination_table, split_lines
from shortlist.cli.console.output import Console, Table
from shortlist.diagnose.calibration import Calibration
from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.summary import sample_note, summary
from shortlist.diagnose.findings.text import counted, percent, points, with_interval
from shortlist.diagnose.full_catalog import Verdict
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.shift import Shift
from shortlist.diagnose.tree.diagnosis import TreeDiagnosis
from shortlist.metrics.estimate import Estimate
from shortlist.pipeline import TrainingHistory
from shortlist.report.diagnosis.budget import budget_lines

FURTHEST = 3  # segments that are shown

STAGES_CAPTION = """> most avoidable losses. in: relevant items that entered. lost: % of all relevant items
[95 % interval]. of in: % of those that entered. avoidable: % of all relevant items lost although the slate had a
place for them, counted at the stage whose choice, rule or order decides it; below 0: it keeps more than the order
before it. oracle: gain of recall in points if this stage alone were perfect, the others as trained
(an upper bound that uses the held-out answers). out: candidates per request after the stage."""

LEVELS_CAPTION = """* no more nodes than the beam: nothing is lost. wrong: pairs that violate the max-heap order.
reach: share of the top k leaves still in the beam. lost: relevant items that the beam lost here.
label: mean rectified label. KL, uniform: distance from the model of negatives sampled by the tree, and uniformly.
pure: share of the most common category below a node, beside that of a random order."""

ANSWERS = {
    "helps": "the stages before {stage!r} help it",
    "hurts": "the stages before {stage!r} hurt it",
    "undecided": "undecided whether the stages before {stage!r} help it",
}


def show(diagnosis: Diagnosis, console: Console) -> None:
    """Print a diagnosis."""
    show_funnel(diagnosis, console)
    for line in () if diagnosis.budget is None else budget_lines(diagnosis.budget):
        console.print(line)
    for name, tree in diagnosis.trees.items():
        show_tree(name, tree, console)


def show_funnel(diagnosis: Diagnosis, console: Console) -> None:
    """Summary, table of stages, findings with knobs, and the details."""
    for text in summary(diagnosis):
        console.print(text)
    if diagnosis.relevant:
        console.print(sample_note(diagnosis))
    for warning in diagnosis.warnings:
        console.print(f"warning: {warning}")
    console.print(stages_table(diagnosis))
    for number, finding in enumerate(diagnosis.findings, start=1):
        console.print(f"{number}. {finding.what}")
        console.print(f"   {finding.why}")
        console.print(f"   -> {finding.knob}")
    if diagnosis.nominators:
        console.print(nominators_table(diagnosis))
    if diagnosis.nomination is not None:
        console.print(nomination_table(diagnosis.nomination))
    if diagnosis.funnel is not None:
        console.print(funnel_table(diagnosis.funnel))
        console.print(reveal_table(diagnosis.funnel.nominators))
    console.print(verdict_line(diagnosis.verdict))
    for line in (
        *split_lines(diagnosis),
        *shift_lines(diagnosis),
        *calibration_lines(diagnosis.calibration),
        *segment_lines(diagnosis),
    ):
        console.print(line)


def stages_table(diagnosis: Diagnosis) -> Table:
    """A row per stage, the largest avoidable loss marked."""
    relevant, worst = max(diagnosis.relevant, 1), diagnosis.largest_loss
    table = Table(
        title=f"which stage loses what: {diagnosis.users:,} {diagnosis.sample.part}, "
        f"{counted(diagnosis.relevant, 'relevant item')}",
        title_justify="left",
        caption=" ".join(STAGES_CAPTION.split()),
        caption_justify="left",
        box=SIMPLE,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("stage", "in", "lost", "of in", "avoidable", "oracle", "out"):
        table.add_column(name, justify="left" if name == "stage" else "right", no_wrap=True)
    for stage in diagnosis.stages:
        oracle = stage.what_if.oracle
        table.add_row(
            ("> " if stage is worst else "  ") + stage.name,
            f"{stage.entered:,}",
            _hundreds(stage.share),
            "–" if stage.conditional is None else f"{100 * stage.conditional:.1f}",
            f"{100 * diagnosis.decided[stage.name] / relevant:.1f}",
            "–" if oracle is None else _hundreds(oracle),
            f"{stage.candidates:,.0f}",
        )
    return table


def nominators_table(diagnosis: Diagnosis) -> Table:
    """What each nominator retrieves, and the change of recall without it."""
    table = Table(title="nominators", title_justify="left", box=SIMPLE)
    for name in ("nominator", "nominated", "by it alone", "recall without it"):
        table.add_column(name, justify="left" if name == "nominator" else "right")
    for name, report in diagnosis.nominators.items():
        table.add_row(name, f"{report.nominated:,}", f"{report.unique:,}", points(report.without))
    return table


def verdict_line(verdict: Verdict | NotMeasured) -> str:
    """Whether the last ranker would do better over the whole catalogue."""
    if isinstance(verdict, NotMeasured):
        return f"whole catalogue: {verdict.why}"
    if verdict.difference.mean == 0 and verdict.gain.mean == 0:
        return f"whole catalogue: {verdict.stage!r} would rank the same items first; the stages before it cost nothing"
    return (
        f"whole catalogue: {ANSWERS[verdict.answer].format(stage=verdict.stage)}: its first item is relevant for "
        f"{percent(verdict.accuracy)} of {counted(verdict.users, 'user')}, {percent(verdict.accuracy_full)} if it "
        f"scores the whole catalogue ({points(verdict.difference)})"
    )


def shift_lines(diagnosis: Diagnosis) -> list[str]:
    """Training against serving for each scorer, with its training mode and the warnings of its training."""
    lines = []
    for name, shift in diagnosis.shift.items():
        history = diagnosis.about.training.get(name)
        lines += [] if history is None else _mode_lines(name, history)
        if not isinstance(shift, Shift):
            lines.append(f"shift of {name}: {shift.why}")
            continue
        lines.append(
            f"shift of {name}: {shift.level}; a classifier separates training candidates from those at serving with "
            f"AUC {shift.auc:.2f} (0.50: not at all); relevant items among them {percent(shift.recall_training)} in "
            f"training, {percent(shift.recall_serving)} at serving"
        )
    return lines


def _mode_lines(name: str, history: TrainingHistory) -> list[str]:
    """The training mode of a ranker, its retrieved targets and its warnings."""
    if not history.mode:
        return []
    line = f"training of {name}: mode = {history.mode!r}, negatives = {history.negatives!r}"
    if history.retrieved is not None:
        found = history.retrieved
        counts = f"{found.retrieved:,} of {found.instances:,} targets ({percent(found.recall)})"
        line += f"; {counts} were among its candidates"
    return [line, *(f"warning, training of {warning}" for warning in history.warnings)]


def calibration_lines(calibration: Mapping[str, Calibration | NotMeasured]) -> list[str]:
    """The calibration error of each scorer."""
    lines = []
    for name, found in calibration.items():
        if not isinstance(found, Calibration):
            lines.append(f"calibration of {name}: {found.why}")
            continue
        after = found.after
        divided = (
            ""
            if after is None or found.temperature is None
            else f"; {percent(after.ece)} with scores divided by {found.temperature:.2f}"
        )
        lines.append(
            f"calibration of {name}: error {percent(found.before.ece)}, by noise alone up to "
            f"{percent(found.before.noise)}{divided}"
        )
    return lines


def segment_lines(diagnosis: Diagnosis) -> list[str]:
    """The segments whose recall is furthest from that of all users."""
    overall = diagnosis.recall.mean
    known = [
        (one.recall.mean, one) for one in diagnosis.segments if not one.few and one.recall.mean is not None
    ]
    if overall is None:
        return []
    furthest = sorted(known, key=lambda pair: -abs(pair[0] - overall))[:FURTHEST]
    return [
        f"{one.kind}, {one.name}: recall {with_interval(one.recall)}, overall {percent(overall)} "
        f"({counted(one.users, 'user')})"
        for _, one in furthest
    ]


def _hundreds(share: Estimate) -> str:
    if share.mean is None:
        return "–"
    if share.low is None or share.high is None:
        return _percent(share.mean)
    return f"{_percent(share.mean)} [{_percent(share.low)}, {_percent(share.high)}]"


def _percent(share: float) -> str:
    return f"{round(100 * share, 1) + 0.0:.1f}"  # + 0.0: no negative zero


def show_tree(name: str, tree: TreeDiagnosis, console: Console) -> None:
    """The findings of a tree, then its levels."""
    console.print(
        f"tree {name!r}: {tree.items:,} items, {tree.height} levels, branch {tree.branch}, beam {tree.beam}, "
        f"{tree.k} items per request; {counted(tree.users, 'user')}, {tree.losses.relevant:,} relevant items",
    )
    for number, finding in enumerate(tree.findings, start=1):
        console.print(f"{number}. {finding.what}")
        console.print(f"   -> {finding.knob}")
    console.print(levels_table(tree))


def levels_table(tree: TreeDiagnosis) -> Table:
    """A row per level; levels that fit into the beam are marked."""
    table = Table(
        title=f"level by level: {tree.regret:.1%} of the best {tree.k} of all leaves are not returned",
        title_justify="left",
        caption=LEVELS_CAPTION,
        caption_justify="left",
    )
    for name in ("level", "nodes", "wrong", "reach", "lost", "label", "KL", "uniform", "pure", "random"):
        table.add_column(name, justify="right")
    for level in tree.levels:
        table.add_row(
            str(level.level),
            f"{level.nodes:,}" + ("" if level.decides else "*"),
            _share(level.violations),
            _share(level.top_kept),
            f"{level.beam_lost:,}",
            _share(level.label),
            _number(level.kl_tree),
            _number(level.kl_uniform),
            _number(level.purity),
            _number(level.purity_random),
        )
    return table


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
