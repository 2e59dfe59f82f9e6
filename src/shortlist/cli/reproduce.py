"""shortlist reproduce: run an experiment and write its result as JSON, Markdown and SVG."""

import inspect
import json as json_text
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from shortlist.artifact.staging import write_whole
from shortlist.cli.console.frame import Json, Seed, emit, errors_to_exit_codes, progress
from shortlist.cli.console.output import echo
from shortlist.errors import ConfigError, DataError
from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.render import claims_page, result_drawings, result_page
from shortlist.lab.result import Result, result_json


@errors_to_exit_codes()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}.")],
    data: Annotated[
        Path | None, typer.Option(envvar="SHORTLIST_DATA", help="Folder of the real data sets.")
    ] = None,
    profile: Annotated[str, typer.Option(help="quick or full.")] = "quick",
    runs: Annotated[int, typer.Option(min=1, max=100, help="Number of seeds.")] = 3,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results"),
    cache: Annotated[
        Path | None,
        typer.Option(help="Cache file of results per system and seed; an interrupted experiment resumes."),
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="More cache files, of runs with other seeds, to merge into that of --cache first."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only these systems or cells, where the table is filled in several runs."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, max=256, help="Processes that share the work.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run an experiment; every claim is reported with whether it holds."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"reproduce: expected one of {', '.join(EXPERIMENTS)}, got {name!r}")
    _merge(cache, merge or [])
    with progress() as report:
        options = _options(name, {"cache_file": cache, "only": only, "jobs": jobs})
        result = EXPERIMENTS[name](data, profile, range(seed, seed + runs), report, **options)
    file = name if profile == "full" else f"{name}-{profile}"  # a quick run never overwrites a full one
    _write(result, out, file)
    if json:
        emit(result_json(result))
        return
    for claim in result.claims:
        holds = "holds" if claim.holds else "FAILS"
        echo(f"{holds}  {claim.id}: {claim.estimate:.4f} ({claim.note})")
    for reason, names in _missing(result).items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        echo(f"missing: {names[0]}{more}: {reason}")
    echo(f"written to {out / file}.json, .md and .svg")


def _missing(result: Result) -> dict[str, list[str]]:
    """What the result lacks, by reason."""
    names: dict[str, list[str]] = {}
    for name, reason in result.skipped.items():
        names.setdefault(reason, []).append(name)
    return names


def _write(result: Result, out: Path, file: str) -> None:
    text = json_text.dumps(result_json(result), indent=1, allow_nan=False)
    write_whole(out / f"{file}.json", text + "\n")
    write_whole(out / f"{file}.md", result_page(result))
    for end, drawing in result_drawings(result).items():
        write_whole(out / f"{file}{end}.svg", drawing)
    write_whole(out / "README.md", claims_page(out))


def _merge(cache: Path | None, others: Sequence[Path]) -> None:
    """Merge other cache files into that of --cache."""
    if others and cache is None:
        raise ConfigError("reproduce: --merge needs --cache, the file to merge results into")
    for path in others:
        if not path.exists():
            raise DataError(f"{path}: expected a cache file of results, but it does not exist")
    if others:
        AnswerCache.open(cache).merge([AnswerCache.open(path) for path in others])


def _options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given; the experiment must have them."""
    known = inspect.signature(EXPERIMENTS[name]).parameters
    options = {key: value for key, value in given.items() if value}
    for key in options:
        if key not in known:
            option = key.removesuffix("_file")
            what = "cache" if option == "cache" else f"option --{option}"
            raise ConfigError(f"reproduce {name}: this experiment has no {what}; leave --{option} out")
    return options
