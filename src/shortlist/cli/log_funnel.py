"""shortlist log funnel: what every stage of a logged funnel keeps, how stages agree, and what is lost."""

from pathlib import Path
from typing import Annotated

import typer

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import write_whole
from shortlist.cli.console.frame import Json, Seed, check_file, emit, errors_to_exit_codes, progress
from shortlist.cli.console.funnel_tables import reveal_table
from shortlist.cli.console.output import Console, Table, echo
from shortlist.diagnose.log.funnel import LogFunnel, diagnose_log
from shortlist.diagnose.log.sample import REQUESTS
from shortlist.feedback.reader import FOREVER
from shortlist.metrics.funnel.selection_auc import AucEstimate
from shortlist.report.log_funnel import log_funnel_page


@errors_to_exit_codes()
def funnel_command(
    root: Annotated[Path, typer.Argument(help="Folder of the log, with manifest.jsonl.")],
    label_rule: Annotated[
        int | None,
        typer.Option(help="Version of the labels, as `log join` prints it. Default: the only one there is."),
    ] = None,
    requests: Annotated[
        int, typer.Option(min=1, help="Requests to sample for all but the counts and reveal ratios.")
    ] = REQUESTS,
    since: Annotated[
        int, typer.Option(help="First time of a request, in milliseconds since 1970.")
    ] = -FOREVER,
    until: Annotated[int, typer.Option(help="Time after the last request, in milliseconds.")] = FOREVER,
    report: Annotated[Path | None, typer.Option(help="Write the report to this HTML file.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """What every stage keeps, how its scores predict the stages after it and the users, and what is lost."""
    check_file(report, "--report")
    with progress() as show_progress:
        found = diagnose_log(
            root,
            rule=label_rule,
            requests=requests,
            since=since,
            until=until,
            seed=seed,
            progress=show_progress,
        )
    if report is not None:
        write_whole(report, log_funnel_page(found, root.resolve().name))
    if json:
        emit({**as_json(found), "report": report})
        return
    show(found, Console())
    if report is not None:
        echo(f"report: {report}")


def show(found: LogFunnel, console: Console) -> None:
    """Print the funnel of a log."""
    console.print(
        f"{found.requests:,} requests with {found.candidates:,} logged candidates; AUCs, agreement, selection and "
        f"utility are those of {found.sampled:,} sampled requests"
    )
    console.print(stages_table(found))
    if found.utility is not None:
        line = found.utility.calibration
        console.print(
            f"the model on shown candidates of later requests: AUC {found.utility.auc:.3f}, mean prediction "
            f"{line.predicted:.3f}, observed {line.observed:.3f}, calibration error {line.expected_error:.3f}"
        )
    console.print(reveal_table(found.nominators, found.revealed_by))
    if found.agreement:
        console.print(agreement_table(found))
    if found.score_aucs:
        console.print(auc_table(found))
    if found.selection:
        console.print(selection_table(found))
    console.print_notes({}, (*found.notes, *(one for own in found.problems.examples.values() for one in own)))


def stages_table(found: LogFunnel) -> Table:
    """Candidates per request at every stage, and the utility it loses."""
    utility = {} if found.utility is None else {one.name: one for one in found.utility.stages}
    table = Table(title="candidates per request, and expected positives by a model", title_justify="left")
    for name in ("stage", "in", "out", "filtered", "best after", "lost"):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in found.stages:
        own = utility.get(stage.name)
        shown = ("", "") if own is None else (f"{own.best_utility:.3f}", f"{own.lost.mean:.4f}")
        table.add_row(
            stage.name, f"{stage.entered:,.1f}", f"{stage.kept:,.1f}", f"{stage.filtered:,.1f}", *shown
        )
    return table


def agreement_table(found: LogFunnel) -> Table:
    """How far a stage keeps the order of the last stage before it that scored."""
    table = Table(title="agreement of stages on the inputs of the second", title_justify="left")
    for name in ("stages", "requests", "best kept", "tau-b", "overlap"):
        table.add_column(name, justify="left" if name == "stages" else "right")
    for one in found.agreement:
        means = (f"{own.mean:.3f}" for own in (one.share_kept, one.tau_b, one.rbo))
        table.add_row(f"{one.first} > {one.second}", f"{one.requests:,}", *means)
    return table


def auc_table(found: LogFunnel) -> Table:
    """How well the scores of a stage predict what happens to its inputs."""
    table = Table(title="AUC of stage scores, ± standard error over requests", title_justify="left")
    for name in ("stage", "for", "AUC", "UAUC", "WUAUC"):
        table.add_column(name, justify="left" if name in ("stage", "for") else "right")
    for one in found.score_aucs:
        table.add_row(one.stage, one.target, *map(auc_text, (one.auc.auc, one.auc.uauc, one.auc.wuauc)))
    return table


def selection_table(found: LogFunnel) -> Table:
    """Models of what a stage keeps, on later requests."""
    title = "selection models, fitted on earlier and measured on later requests"
    table = Table(title=title, title_justify="left")
    for name in ("stage", "features", "AUC", "UAUC", "WUAUC", "log loss", "calib.\nerror", "set gap"):
        table.add_column(name, justify="left" if name in ("stage", "features") else "right")
    for one in found.selection:
        own = one.report.pointwise
        figures = (own.auc.auc, own.auc.uauc, own.auc.wuauc)
        table.add_row(
            one.stage,
            one.features,
            *(f"{figure.value:.3f}" for figure in figures),
            f"{own.calibration.log_loss:.3f}",
            f"{own.calibration.expected_error:.3f}",
            f"{one.report.gap:+.3f}",
        )
    return table


def auc_text(one: AucEstimate) -> str:
    """An AUC with its standard error over requests."""
    return f"{one.value:.3f} ± {one.request_error:.3f}"
