"""The join of the log with its feedback, part by part: memory is bounded by one part, not by the log."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import MANIFEST as DONE
from shortlist.artifact.staging import staged
from shortlist.errors import ConfigError, DataError
from shortlist.feedback.events.append import watermark as watermark_of
from shortlist.feedback.id_index import IdIndex
from shortlist.feedback.manifest import Part
from shortlist.feedback.outcomes import EVENT_COLUMNS, LabelRules, labels_of
from shortlist.feedback.parts import HOUR_MS, parquet_bytes, partition, write_bytes
from shortlist.feedback.problems import Problems
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import MISSING, Array, LoggedRequests
from shortlist.feedback.schema import SCHEMA_VERSION
from shortlist.progress import Progress, silent

PART_ROWS = 1 << 18

EXPLAINED = {
    "item_not_served": "events about an item that the request did not serve; they are not used",
    "duplicate_events": "events with the request, item, kind and time of another one; each is used once",
    "before_the_request": "events with an earlier time than their request: a clock went backwards; they are not used",
    "after_the_window": "events after the window of their kind; they are not used",
    "never_logged": "events of requests that are not in the log, or are left out of it; they are not used",
    "positive_without_impression": "positive labels without an impression; they count as shown",
    "plays_without_duration": "played items without a duration; their watch_ratio is not known",
    "corrections": "events behind the watermark when they came; they are used",
    "labels_changed_by_corrections": "labels that events behind the watermark changed",
}


@dataclass(frozen=True)
class JoinReport:
    """What a join used and what it left out."""

    rule_version: int
    watermark_ms: int
    requests: int
    labels: int
    positives: int
    negatives: int
    open: int  # no label yet, or never: not shown
    events: int  # of logged requests
    counts: Mapping[str, int] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)

    @property
    def explained(self) -> tuple[str, ...]:
        """One sentence per kind of event that was not simply used."""
        return tuple(f"{count} {EXPLAINED[name]}" for name, count in self.counts.items() if count)


def join_feedback(
    root: Path | str,
    rules: LabelRules | None = None,
    watermark: int | None = None,
    durations: Mapping[Any, float] | None = None,
    progress: Progress = silent,
) -> JoinReport:
    """Build the table of labels again from candidates and feedback; the same input gives the same bytes.

    The labels of a rule replace those of an earlier run only when all of them are written.
    """
    rules, reader = rules or LabelRules(), LogReader(Path(root), scores=False)
    watermark = watermark_of(reader.root, rules.allowed_lateness_ms) if watermark is None else watermark
    events = {late: _events(reader, table) for table, late in (("feedback", False), ("corrections", True))}
    total: Counter[str] = Counter()
    with staged(labels_folder(reader.root, rules.version), overwrite=True) as folder:
        made = _labels(reader, events, rules, watermark, durations, total, progress)
        parts = [_written(folder, number, *group) for number, group in enumerate(_grouped(made))]
        (folder / DONE).write_text(_manifest(rules, watermark, parts), "utf-8")
    n_events = sum(part.rows for index in events.values() for part in index.parts)
    total["never_logged"] = max(n_events - total["events"], 0)
    return _report(rules, watermark, total, reader.problems)


def _labels(
    reader: LogReader,
    events: Mapping[bool, IdIndex],
    rules: LabelRules,
    watermark: int,
    durations: Mapping[Any, float] | None,
    total: Counter[str],
    progress: Progress,
) -> Iterator[tuple[int, pa.Table]]:
    """The labels of one row group after the other, with the hour of its requests."""
    for number, record in enumerate(reader.requests(), start=1):
        span = (int(record.request_id.min()), int(record.request_id.max()))
        found = [(one, late) for late, index in events.items() for one in index.between(*span)]
        table, counts = labels_of(record, found, rules, watermark, durations)
        total += counts + _summary(record, table)
        progress("join", number, max(number, len(reader.pairs)))
        if len(table):
            yield int(record.ts_ms[0]) // HOUR_MS, table


def _grouped(made: Iterator[tuple[int, pa.Table]]) -> Iterator[tuple[int, list[pa.Table]]]:
    """Tables of one hour together, up to the size of a part."""
    hour, group, rows = 0, list[pa.Table](), 0
    for this, table in made:
        if group and (this != hour or rows >= PART_ROWS):
            yield hour, group
            group, rows = [], 0
        hour = this
        group.append(table)
        rows += len(table)
    if group:
        yield hour, group


def labels_folder(root: Path, rule_version: int) -> Path:
    """The folder of the labels of a rule."""
    return root / "table=labels" / f"rule={rule_version}"


def labelled(reader: LogReader, rule_version: int) -> Iterator[LoggedRequests]:
    """The requests of a reader with y and `shown` of their served candidates."""
    for record, labels, at in with_label_rows(reader, rule_version, ("y", "y_multi")):
        if labels is None:
            yield record
            continue
        shown = labels["y_multi"].combine_chunks().field("impression")
        y, seen = labels["y"].fill_null(MISSING), shown.fill_null(MISSING)
        yield replace(
            record,
            y=_placed(record.y, at, y.to_numpy()),
            shown=_placed(record.shown, at, seen.to_numpy(zero_copy_only=False)),
        )


def only_rule(root: Path) -> int:
    """The version of the labels of a log that has labels of one rule."""
    folder = labels_folder(root, 0).parent
    rules = sorted(path.name.removeprefix("rule=") for path in folder.glob("rule=*"))
    if not rules:
        raise DataError(f"{root}: the log has no labels; make them with: shortlist log join {root}")
    if len(rules) > 1:
        raise ConfigError(
            f"{root}: the log has labels of several rules; choose one with --label-rule: {', '.join(rules)}"
        )
    return int(rules[0])


def with_label_rows(
    reader: LogReader, rule_version: int, columns: Sequence[str]
) -> Iterator[tuple[LoggedRequests, pa.Table | None, Array]]:
    """Records with the rows of their labels and the candidate of each row."""
    folder = labels_folder(reader.root, rule_version)
    if not (folder / DONE).is_file():
        raise DataError(
            f"{folder}: expected labels, found none; make them with: shortlist log join {reader.root}"
        )
    lines = json.loads((folder / DONE).read_text("utf-8"))["parts"]
    index = IdIndex(folder, [Part(**line) for line in lines], ("request_id", "position", *columns))
    for record in reader.requests():
        found = index.between(int(record.request_id.min()), int(record.request_id.max()))
        labels = pa.concat_tables(found) if found else None
        known, at = (np.zeros(0, bool),) * 2 if labels is None else _label_places(record, labels)
        if len(at) != int((record.position > 0).sum()):
            raise DataError(
                f"{folder}: expected a label of every served candidate, found {len(at)} of "
                f"{int((record.position > 0).sum())} after request {record.request_id[0]}; the log has grown, make "
                f"them again with: shortlist log join {reader.root}"
            )
        yield record, None if labels is None else labels.filter(pa.array(known)), at


def _label_places(record: LoggedRequests, labels: pa.Table) -> tuple[Array, Array]:
    """Which rows of labels belong to the record, and the candidate of each of these: that with its position."""
    order = np.argsort(record.request_id, kind="stable")
    ids, position = labels["request_id"].to_numpy(), labels["position"].to_numpy()
    row = order[np.minimum(np.searchsorted(record.request_id[order], ids), len(order) - 1)]
    place = np.full((len(record), 1 + max(record.position.max(initial=0), position.max(initial=0))), MISSING)
    served = np.flatnonzero(record.position > 0)
    place[record.request[served], record.position[served]] = served
    at = np.where(record.request_id[row] == ids, place[row, position], MISSING)
    return at >= 0, at[at >= 0]


def _placed(values: Array, at: Array, new: Array) -> Array:
    changed = values.copy()
    changed[at] = new
    return changed


def _events(reader: LogReader, table: str) -> IdIndex:
    """The usable parts of a table of events; their hashes are always checked, so that reading cannot fail later."""
    careful = replace(reader, check=True)
    parts = [part for part in reader.manifest.of(table) if careful.is_usable(part)]
    return IdIndex(reader.root, parts, EVENT_COLUMNS)


def _summary(record: LoggedRequests, table: pa.Table) -> Counter[str]:
    y = table["y"].fill_null(MISSING).to_numpy()
    return Counter(
        requests=len(record), labels=len(y), positives=int((y == 1).sum()), negatives=int((y == 0).sum())
    )


def _written(folder: Path, number: int, hour: int, tables: list[pa.Table]) -> Part:
    """One part of labels in the staging folder, with one row group per table."""
    path = f"{partition(hour)}/part-join-{number}.parquet"
    data = parquet_bytes(tables)
    digest = write_bytes(folder, path, data)
    ids = pa.chunked_array([chunk for table in tables for chunk in table["request_id"].chunks])
    ends = pc.min_max(ids).as_py()
    times, span = (hour * HOUR_MS, (hour + 1) * HOUR_MS - 1), (ends["min"], ends["max"])
    return Part("labels", path, len(ids), *times, digest, SCHEMA_VERSION, "join", number, *span, len(data))


def _manifest(rules: LabelRules, watermark: int, parts: list[Part]) -> str:
    facts = {"schema_version": SCHEMA_VERSION, "rules": rules, "rule_version": rules.version}
    return json.dumps(as_json(facts | {"watermark_ms": watermark, "parts": parts}), indent=1)


def _report(rules: LabelRules, watermark: int, total: Counter[str], problems: Problems) -> JoinReport:
    known = total["positives"] + total["negatives"]
    return JoinReport(
        rules.version,
        watermark,
        total["requests"],
        total["labels"],
        total["positives"],
        total["negatives"],
        total["labels"] - known,
        total["events"],
        {name: total[name] for name in EXPLAINED if total[name]},
        problems,
    )
