"""The command line: one file per verb."""

import typer

from shortlist import __version__
from shortlist.cli import data
from shortlist.cli.bench import bench
from shortlist.cli.compare import compare
from shortlist.cli.diagnose import diagnose
from shortlist.cli.evaluate import evaluate
from shortlist.cli.explain import explain
from shortlist.cli.quickstart import quickstart
from shortlist.cli.recommend import recommend
from shortlist.cli.reproduce import reproduce
from shortlist.cli.serve import serve
from shortlist.cli.train import train

app = typer.Typer(
    name="shortlist",
    help="From an interaction log to a multi-stage recommender that says which stage lost what.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """From an interaction log to a multi-stage recommender that says which stage lost what."""


app.command()(quickstart)
app.add_typer(data.app, name="data")
for verb in (train, evaluate, compare, diagnose, recommend, explain, serve, bench, reproduce):
    app.command()(verb)
