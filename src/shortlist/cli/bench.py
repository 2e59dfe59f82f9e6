"""shortlist bench: speed as ratios measured in one run."""

from typing import Annotated

import typer

from shortlist.cli.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.errors import ConfigError
from shortlist.lab.bench import BENCHES


@errors_to_exit_codes()
def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHES)}.")],
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Measure and say whether what we claim holds here."""
    if name not in BENCHES:
        raise ConfigError(f"bench: expected one of {', '.join(BENCHES)}, got {name!r}")
    with progress() as tell:
        told = BENCHES[name](seed=seed, progress=tell)
    if json:
        emit(told)
        return
    for one in told["claims"]:
        typer.echo(
            f"{'holds' if one['holds'] else 'FAILS'}  {one['id']} = {one['estimate']:.3g} ({one['note']})"
        )
    for missing, why in told.get("skipped", {}).items():
        typer.echo(f"skipped {missing}: {why}")
    for one in told["rows"]:
        typer.echo(f"       {one['method']:<13} {one['metric']:<42} {one['mean']:.4g} ± {one['sd']:.2g}")
