"""From a log on disk to a data set: read, filter, count."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from shortlist.data.catalog import LIST_SEPARATOR
from shortlist.data.choose_split import AUTO, choose_split
from shortlist.data.cleaning import LogFilters, apply_filters, format_counts
from shortlist.data.dataset import Dataset, LogFacts, build_dataset, check_ties, order_ties
from shortlist.data.event_weights import stored_weights, weights_mode
from shortlist.data.raw_events import RawEvents, Reject
from shortlist.data.sources import Frame, Source, is_frame, options_of, read_source, source_name
from shortlist.data.split import check_protocol
from shortlist.errors import ConfigError, DataError

FILES = ("items", "users")  # tables beside the log
NOT_REPEATED = (  # arguments of `read` that `append` does not repeat: the log itself, its name and its split
    *("path", "format", "name", "options", *FILES, "strict"),
    *("split", "min_length", "held_out", "first_halves", "train_share", "valid_share", "seed"),
)


def read(
    path: Source | Frame | Sequence[Source],
    format: str = "tabular",
    *,
    name: str = "",
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | None = None,
    items: Source | Frame | None = None,
    users: Source | Frame | None = None,
    delimiter: str = "",
    encoding: str = "",
    decimal: str = "",
    list_separator: str = LIST_SEPARATOR,
    weights: str | None = None,
    min_weight: float | None = None,
    min_user_events: int = 0,
    min_item_events: int = 0,
    core: bool = False,
    ties: str = "file",
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

    `path` is a file, a folder, a zip, a pattern, a list of these, a binary stream, or a data frame: anything with an
    Arrow stream (pandas, polars, DuckDB, pyarrow). `user`, `item`, `time` and `weight` name columns of a table;
    `columns` maps further ones (our name -> column of the file). `items` and `users` are tables with metadata, as files
    or data frames. `delimiter`, `encoding` and `decimal` are detected if they are not given. `options` go to the reader
    of the format. With `bad_lines="skip"`, the skipped lines are in `rejects` of the data set.

    Item columns in which `list_separator` occurs are lists, except titles. `weights` are strengths of events ("use",
    the default for tables), or every event gets weight 1 ("implicit", the default for formats with ratings). The four
    filters drop events; with `strict`, an event that would be dropped is an error. A user's events of the same time
    keep the order of the file (`ties="file"`) or are ordered by a hash of user and item id ("hash"). `split` is a
    protocol, or "auto" for the one that fits the log; `min_length`, `held_out`, `first_halves`, `train_share`,
    `valid_share` and `seed` are its settings.
    """
    given = dict(locals())
    mode = weights_mode(weights, format)
    given["weights"] = mode if mode == "implicit" else weights  # appended events count once too
    check_protocol(split, AUTO)
    check_ties(ties)
    title = source_name(path)
    named = {"user": user, "item": item, "time": time, "weight": weight}
    mapping = {**(columns or {}), **{ours: theirs for ours, theirs in named.items() if theirs is not None}}
    extra = {"items": items, "users": users, "delimiter": delimiter, "encoding": encoding, "decimal": decimal}
    chosen_options = {**(options or {}), **{name: value for name, value in extra.items() if is_set(value)}}
    raw = read_source(format, path, **_reader_options(format, mapping, chosen_options, bad_lines))
    if not len(raw):
        raise DataError(
            f"{title}: expected events, got none of {raw.read:,} rows ({format_counts(raw.dropped)})"
        )
    unfiltered = build_dataset(
        raw, name or ("data" if is_frame(path) else dataset_name(title)), list_separator
    )
    if min_weight is not None and raw.weights is None:
        raise ConfigError(_no_weights(title, format, min_weight))
    filters = LogFilters(True, min_weight, min_user_events, min_item_events, core)
    dataset, removed = apply_filters(unfiltered, filters)
    dropped = {**raw.dropped, **removed}
    if strict and dropped:
        raise DataError(
            f"{title}: rows would be dropped ({format_counts(dropped)}); fix the rows or drop --strict"
        )
    events, weights_note = stored_weights(dataset.events, mode, title)
    dataset = order_ties(replace(dataset, events=events), ties)
    # Only the name of the path: a data set must not reveal the machine it was made on.
    facts = LogFacts(
        format, Path(title).name, raw.read, len(dataset.events), dropped, options=_recorded(given, raw)
    )
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
    return replace(
        dataset,
        facts=replace(facts, split_reason=chosen.reason, weights=weights_note),
        split_settings=chosen.settings,
        rejects=_without_folders(raw.rejects),
    )


def dataset_name(title: str) -> str:
    """The name of a file without its folder and suffixes."""
    return Path(title).name.strip("<>*?[]").partition(".")[0] or "data"


def is_set(value: object) -> bool:
    """Whether an argument is given: not None and no empty text."""
    return value is not None and not (isinstance(value, str) and not value)


def _no_weights(title: str, format: str, min_weight: float) -> str:
    advice = "name their column with --weight COLUMN, or " if "columns" in options_of(format) else ""
    return (
        f"{title}: has no weights, and --min-weight {min_weight:g} needs them; {advice}leave out --min-weight"
    )


def _without_folders(rejects: tuple[Reject, ...]) -> tuple[Reject, ...]:
    """File names relative to their common folder: a data set must not reveal the machine it was made on."""
    folders = {str(Path(one.file).parent) for one in rejects}
    if not folders:
        return rejects
    common = os.path.commonpath(folders)
    return tuple(replace(one, file=os.path.relpath(one.file, common)) for one in rejects)


def _recorded(given: Mapping[str, Any], raw: RawEvents) -> dict[str, Any]:
    """The arguments that `append` reads further files with: no defaults, no split, no paths of files."""
    defaults = {name: one.default for name, one in signature(read).parameters.items()}
    alike = {name: value for name, value in given.items() if name not in NOT_REPEATED}
    recorded = {name: value for name, value in alike.items() if value not in (defaults[name], {})}
    options = {name: value for name, value in (given["options"] or {}).items() if name not in FILES}
    if raw.weights is not None and "columns" in options_of(given["format"]):
        recorded = {"weight": "weight", **recorded}  # found by its usual name; later files must have it too
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
