"""shortlist bench: speed as ratios measured in one run."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer

from shortlist.cli.console.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import echo
from shortlist.errors import ConfigError
from shortlist.lab.bench import BENCHES, bench_log, bench_log_training, bench_train
from shortlist.lab.result import Result, result_json
from shortlist.train.auto.plan import MINUTES

SIZED: Mapping[str, Callable[..., Result]] = {"log": bench_log, "log-training": bench_log_training}


@errors_to_exit_codes()
def bench(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(BENCHES)}.")],
    seed: Seed = 0,
    minutes: Annotated[
        float | None, typer.Option(help=f"Time budget of the benchmark train; {MINUTES:g} if not given.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=20, help="Requests of the benchmarks log and log-training.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure speed, and report which of our claims hold on this machine."""
    if name not in BENCHES:
        raise ConfigError(f"bench: expected one of {', '.join(BENCHES)}, got {name!r}")
    if minutes is not None and name != "train":
        raise ConfigError(
            f"--minutes is an option of `shortlist bench train`, got it for {name}; leave it out"
        )
    if requests is not None and name not in SIZED:
        raise ConfigError(
            f"--requests is an option of {' and '.join(SIZED)}, got it for {name}; leave it out"
        )
    run = BENCHES[name] if minutes is None else partial(bench_train, minutes=minutes)
    run = run if requests is None else partial(SIZED[name], requests=requests)
    with progress() as report:
        result = run(seed=seed, progress=report)
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
