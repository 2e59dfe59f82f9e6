"""shortlist plan: the pipeline that train composes for a data set, with the reason of every choice."""

from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, PreparedData, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import echo_lines
from shortlist.cli.console.protocol import Protocol
from shortlist.train.auto.plan import MINUTES
from shortlist.train.auto.plan import plan as plan_for_data


@errors_to_exit_codes()
def plan(
    data: PreparedData,
    minutes: Annotated[float, typer.Option(help="Time budget of the training.")] = MINUTES,
    protocol: Protocol = None,
    seed: Seed = 0,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit",
            help="Whether the training ends with a fit on all events; it needs time too.",
        ),
    ] = True,
    json: Json = False,
) -> None:
    """Print the recipe as TOML with comments; redirect it to a file and edit that."""
    with progress() as show:
        made = plan_for_data(data, minutes=minutes, protocol=protocol, seed=seed, refit=refit, progress=show)
    if json:
        emit({**vars(made), "recipe": vars(made.recipe), "toml": made.toml})
    else:
        echo_lines(made.toml.rstrip("\n"))
