"""What `auto` did, for people: single models beside the pipeline, dropped nominators, and the verdict."""

from shortlist.cli.console.output import Console, Table, echo
from shortlist.pipeline.plan_report import PlanReport


def show_plan_report(report: PlanReport) -> None:
    """The table of the comparison, what was dropped and left out, and the verdict."""
    if report.compared:
        Console().print(compared_table(report))
    for name, reason in report.dropped.items():
        echo(f"dropped {name}: {reason}")
    for name, reason in report.left_out.items():
        echo(f"left out {name}: {reason}")
    echo(report.verdict)


def compared_table(report: PlanReport) -> Table:
    """Recall of the pipeline and of every single model, with paired differences."""
    table = Table(title=f"recall@20 on {report.requests:,} validation requests", title_justify="left")
    for header in ("model", "recall@20", "pipeline - model"):
        table.add_column(header, justify="left" if header == "model" else "right")
    table.add_row("pipeline", f"{report.recall:.4f}", "")
    for one in report.compared:
        own = one.difference
        table.add_row(one.name, f"{one.recall:.4f}", f"{own.mean:+.4f} [{own.low:+.4f}, {own.high:+.4f}]")
    return table
