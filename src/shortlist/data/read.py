"""From a log on disk to a data set: read, filter, count."""

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from shortlist.data.catalog import LIST_SEPARATOR
from shortlist.data.choose_split import AUTO, choose_split
from shortlist.data.cleaning import LogFilters, apply_filters, format_counts
from shortlist.data.dataset import Dataset, LogFacts, build_dataset
from shortlist.data.sources import options_of, read_source
from shortlist.data.split import check_protocol
from shortlist.errors import ConfigError, DataError

FILES = ("items", "users")  # tables beside the log
NOT_REPEATED = (  # arguments of `read` that `append` does not repeat: the log itself, its name and its split
    *("path", "format", "name", "options", *FILES, "strict"),
    *("split", "min_length", "held_out", "first_halves", "train_share", "valid_share", "seed"),
)


def read(
    path: Path | str,
    format: str = "tabular",
    *,
    name: str = "",
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    list_separator: str = LIST_SEPARATOR,
    min_weight: float | None = None,
    min_user_events: int = 0,
    min_item_events: int = 0,
    core: bool = False,
    bad_lines: str = "refuse",
    strict: bool = False,
    split: str = AUTO,
    min_length: int | None = None,
    held_out: float | None = None,
    first_halves: bool | None = None,
    train_share: float | None = None,
    valid_share: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Read a log of interactions; the arguments are those of `shortlist data prepare`.

    `user`, `item`, `time` and `weight` name columns of a table; `columns` maps further ones (our name -> column of the
    file). `options` go to the reader of the format. Item columns in which `list_separator` occurs are lists, except
    titles. The four filters drop events; with `strict`, an event that would be dropped is an error. `split` is a
    protocol, or "auto" for the one that fits the log; `min_length`, `held_out`, `first_halves`, `train_share`,
    `valid_share` and `seed` are its settings.
    """
    given = dict(locals())
    if split != AUTO:
        check_protocol(split)
    path = Path(path)
    named = {"user": user, "item": item, "time": time, "weight": weight}
    mapping = {**(columns or {}), **{ours: theirs for ours, theirs in named.items() if theirs is not None}}
    raw = read_source(format, path, **_reader_options(format, mapping, options or {}, bad_lines))
    if not len(raw):
        raise DataError(
            f"{path}: expected events, got none of {raw.read:,} rows ({format_counts(raw.dropped)})"
        )
    unfiltered = build_dataset(raw, name or path.name.partition(".")[0], list_separator)
    filters = LogFilters(True, min_weight, min_user_events, min_item_events, core)
    dataset, removed = apply_filters(unfiltered, filters)
    dropped = {**raw.dropped, **removed}
    if strict and dropped:
        raise DataError(
            f"{path}: rows would be dropped ({format_counts(dropped)}); fix the rows or drop --strict"
        )
    # Only the name of the path: a data set must not reveal the machine it was made on.
    facts = LogFacts(format, path.name, raw.read, len(dataset.events), dropped, options=_recorded(given))
    chosen = choose_split(
        dataset.events,
        dataset.clock,
        split,
        seed,
        min_length=min_length,
        held_out=held_out,
        first_halves=first_halves,
        train=train_share,
        valid=valid_share,
    )
    return replace(dataset, facts=replace(facts, split_reason=chosen.reason), split_settings=chosen.settings)


def _recorded(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that `append` reads further files with: no defaults, no split, no paths of files."""
    defaults = {name: one.default for name, one in signature(read).parameters.items()}
    alike = {name: value for name, value in given.items() if name not in NOT_REPEATED}
    recorded = {name: value for name, value in alike.items() if value != defaults[name]}
    options = {name: value for name, value in (given["options"] or {}).items() if name not in FILES}
    return {**recorded, **({"options": options} if options else {})}


def _reader_options(
    format: str, columns: Mapping[str, str], options: Mapping[str, Any], bad_lines: str
) -> dict[str, Any]:
    if "columns" in options:
        raise ConfigError("options: columns is not an option; use columns (--column ours=theirs)")
    if columns and "columns" not in options_of(format):
        raise ConfigError(f"{format}: its columns are fixed; leave out the column mapping")
    return {
        **options,
        **({"bad_lines": bad_lines} if bad_lines != "refuse" else {}),
        **({"columns": columns} if columns else {}),
    }
