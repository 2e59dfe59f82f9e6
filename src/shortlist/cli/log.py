"""shortlist log: what a full-stage log holds, its labels, and its export."""

import time
from pathlib import Path
from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import echo
from shortlist.cli.log_funnel import funnel_command
from shortlist.cli.log_live import live_command
from shortlist.errors import ConfigError
from shortlist.feedback.events.append import AppendedEvents, append_events
from shortlist.feedback.events.files import ENDINGS, check_file, durations_of, read_events, read_features
from shortlist.feedback.events.writer import recover_events
from shortlist.feedback.inspection import LogSummary, inspect_log
from shortlist.feedback.join import JoinReport, join_feedback
from shortlist.feedback.outcomes import LabelRules
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import FOREVER, LogReader
from shortlist.feedback.recflow.export import LEVELS, Features, to_recflow
from shortlist.feedback.schema import EVENTS

app = typer.Typer(
    help="Inspect, label and export a full-stage log, or the live events of a service.", no_args_is_help=True
)

Root = Annotated[Path, typer.Argument(help="Folder of the log, with manifest.jsonl.")]
KINDS = ", ".join(ENDINGS)


@app.command("inspect")
@errors_to_exit_codes()
def inspect_command(
    root: Root,
    since: Annotated[
        int, typer.Option(help="First time of a request, in milliseconds since 1970.")
    ] = -FOREVER,
    until: Annotated[int, typer.Option(help="Time after the last request, in milliseconds.")] = FOREVER,
    check: Annotated[bool, typer.Option(help="Compare the sha256 of every file with the manifest.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Requests, candidates of every stage, and what cannot be used; nothing is random, the seed has no effect."""
    summary = inspect_log(root, since, until, check)
    if json:
        emit(summary)
    else:
        _print_summary(summary)


@app.command("join")
@errors_to_exit_codes()
def join_command(
    root: Root,
    events: Annotated[
        list[Path] | None,
        typer.Option("--events", help=f"Append the events of this file first: {KINDS}; repeatable."),
    ] = None,
    positive: Annotated[
        list[str] | None,
        typer.Option(help=f"Event that makes a positive label, of {', '.join(EVENTS)}; repeatable."),
    ] = None,
    least_play_ms: Annotated[float, typer.Option(help="A shorter play is not positive.", min=0)] = 0.0,
    items: Annotated[
        Path | None,
        typer.Option(help=f"Table with item_id and duration in milliseconds, for the watch ratio: {KINDS}."),
    ] = None,
    watermark: Annotated[
        int | None,
        typer.Option(help="Time up to which events are there. Default: the newest event minus 10 minutes."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Join requests with their feedback into the table of labels; nothing is random, the seed has no effect."""
    for path in (*(events or ()), *([items] if items else ())):
        check_file(path, "events" if path != items else "items")
    rules, text = (
        LabelRules(tuple(positive or LabelRules.positive), least_play_ms),
        LogReader(root).text_items,
    )
    durations = None if items is None else durations_of(read_features(items, "item_id", text), items)
    recovered, now = recover_events(root), time.time_ns() // 1_000_000
    added = [append_events(root, read_events(path, text), now) for path in events or []]
    with progress() as show:
        report = join_feedback(root, rules, watermark, durations, show)
    if json:
        emit({"recovered": recovered, "appended": added, "join": report})
    else:
        _print_join(recovered, added, report)


@app.command("export")
@errors_to_exit_codes()
def export_command(
    root: Root,
    out: Annotated[Path, typer.Argument(help="Folder to write all_stage/YYYY-MM-DD.feather into.")],
    rule: Annotated[int | None, typer.Option(help="Version of the labels, as `log join` prints it.")] = None,
    levels: Annotated[
        str, typer.Option(help="Largest S of prerank_neg, coarse_neg, rank_neg and rerank_neg.")
    ] = ",".join(map(str, LEVELS)),
    items: Annotated[
        Path | None, typer.Option(help=f"Table with item_id and any item columns of RecFlow: {KINDS}.")
    ] = None,
    users: Annotated[
        Path | None, typer.Option(help=f"Table with user_id and any user columns of RecFlow: {KINDS}.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace an export that exists.")] = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write the log in the columns of RecFlow; nothing is random, the seed has no effect."""
    text = LogReader(root).text_items
    features = Features(
        None if users is None else read_features(users, "user_id"),
        None if items is None else read_features(items, "item_id", text),
    )
    done = to_recflow(root, out, rule, _levels(levels), features, force)
    if json:
        emit(done)
        return
    echo(f"wrote {done.rows:,} rows of {done.requests:,} requests to {len(done.files)} files in {out}")
    _print_problems(done.problems)


app.command("funnel")(funnel_command)
app.command("live")(live_command)


def _print_summary(summary: LogSummary) -> None:
    echo(
        f"{summary.requests:,} requests, {summary.rows:,} candidates, {summary.bytes_per_row:.1f} bytes per candidate"
    )
    for stages, count in summary.funnels.items():
        echo(f"  {count:,} requests: {stages}")
    echo(f"{'S':>4}{'nominated':>14}{'filtered':>14}{'logged':>14}{'sum of 1 / p':>16}")
    for one in summary.strata:
        echo(f"{one.stage:>4}{one.nominated:>14,}{one.filtered:>14,}{one.logged:>14,}{one.weight:>16,.1f}")
    echo(
        f"dropped {summary.dropped_requests:,}, failed {summary.failed_requests:,}, outside of the logged share "
        f"{summary.skipped_requests:,} requests; the clock went backwards before {summary.clock_backwards:,} requests, "
        f"{summary.users_not_stored:,} user ids are not of the type of the column"
    )
    waiting = f"{summary.waiting_events:,} accepted but not yet in a part"
    echo(f"{summary.events:,} events, {summary.rejected_events:,} rejected, {waiting}")
    _print_problems(summary.problems)


def _print_join(recovered: int, added: list[AppendedEvents], report: JoinReport) -> None:
    if recovered:
        echo(f"recovered {recovered:,} events of a writer that was stopped")
    for one in added:
        echo(f"appended {one.written:,} events, {one.corrections:,} of them corrections")
        _print_problems(one.problems)
    echo(
        f"{report.requests:,} requests, {report.labels:,} labels of rule {report.rule_version}: "
        f"{report.positives:,} positive, {report.negatives:,} negative, {report.open:,} not known"
    )
    for sentence in report.explained:
        echo(sentence)
    _print_problems(report.problems)


def _print_problems(problems: Problems) -> None:
    """One sentence per kind of problem, then a few examples of each."""
    for sentence in problems.explained:
        echo(sentence)
    for kind, sentences in problems.examples.items():
        for sentence in sentences:
            echo(f"  {kind}: {sentence}")


def _levels(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--levels: expected four whole numbers such as 1,2,3,4, got {text!r}") from error
