"""shortlist bench: speed as ratios measured in one run."""

from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import echo
from shortlist.errors import ConfigError
from shortlist.lab.bench import BENCHES
from shortlist.lab.result import result_json


@errors_to_exit_codes()
def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHES)}.")],
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure speed, and report which of our claims hold on this machine."""
    if name not in BENCHES:
        raise ConfigError(f"bench: expected one of {', '.join(BENCHES)}, got {name!r}")
    with progress() as report:
        result = BENCHES[name](seed=seed, progress=report)
    if json:
        emit(result_json(result))
        return
    echo(f"processor: {result.processor}; {result.profile}")
    for claim in result.claims:
        holds = "holds" if claim.holds else "FAILS"
        echo(f"{holds}  {claim.id} = {claim.estimate:.3g} ({claim.note})")
    for part, reason in result.skipped.items():
        echo(f"skipped {part}: {reason}")
    for row in result.rows:
        echo(f"       {row.method:<13} {row.metric:<42} {row.mean:.4g} ± {row.sd:.2g}")
