"""The join of the log with its feedback, part by part: memory is bounded by one part, not by the log."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shortlist.artifact.as_json import as_json
from shortlist.artifact.staging import MANIFEST as DONE
from shortlist.artifact.staging import staged
from shortlist.errors import DataError
from shortlist.feedback.events import watermark as watermark_of
from shortlist.feedback.id_index import IdIndex
from shortlist.feedback.manifest import Part
from shortlist.feedback.outcomes import EVENT_COLUMNS, LabelRules, labels_of
from shortlist.feedback.parts import parquet_bytes, write_bytes
from shortlist.feedback.reader import LogReader, Problems
from shortlist.feedback.record import MISSING, LoggedRequests
from shortlist.feedback.schema import SCHEMA_VERSION
from shortlist.progress import Progress, silent

EXPLAINED = {
    "item_not_served": "events about an item that the request did not serve; they are not used",
    "duplicate_events": "events with the request, item, kind and time of another one; each is used once",
    "before_the_request": "events with an earlier time than their request: a clock went backwards; they are not used",
    "after_the_window": "events after the window of their kind; they are not used",
    "never_logged": "events of requests that are not in the log; they are not used",
    "positive_without_impression": "positive labels without an impression; they count as shown",
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
    root: Path,
    rules: LabelRules | None = None,
    watermark: int | None = None,
    durations: Mapping[Any, float] | None = None,
    progress: Progress = silent,
) -> JoinReport:
    """Build the table of labels again from candidates and feedback; the same input gives the same bytes.

    The labels of a rule replace those of an earlier run only when all of them are written.
    """
    rules, reader = rules or LabelRules(), LogReader(Path(root))
    watermark = watermark_of(reader.root, rules.allowed_lateness_ms) if watermark is None else watermark
    events = {late: _events(reader, table) for table, late in (("feedback", False), ("corrections", True))}
    total: Counter[str] = Counter()
    parts = list[Part]()
    with staged(labels_folder(reader.root, rules.version), overwrite=True) as folder:
        for number, record in enumerate(reader.requests()):
            span = (int(record.request_id.min()), int(record.request_id.max()))
            found = [(one, late) for late, index in events.items() for one in index.between(*span)]
            table, counts = labels_of(record, found, rules, watermark, durations)
            total += counts + _summary(record, table)
            if len(table):
                parts.append(_written(folder, number, table, record))
            progress("join", number + 1, len(reader.pairs))
        (folder / DONE).write_text(_manifest(rules, watermark, parts), "utf-8")
    n_events = sum(len_ for index in events.values() for len_ in (part.rows for part in index.parts))
    total["never_logged"] = max(n_events - total["events"], 0)
    return _report(rules, watermark, total, reader.problems)


def labels_folder(root: Path, rule_version: int) -> Path:
    """The folder of the labels of a rule."""
    return root / "table=labels" / f"rule={rule_version}"


def labelled(reader: LogReader, rule_version: int) -> Iterator[LoggedRequests]:
    """The requests of a reader with y and `shown` of their served candidates."""
    folder = labels_folder(reader.root, rule_version)
    if not (folder / DONE).is_file():
        raise DataError(
            f"{folder}: expected labels, found none; make them with: shortlist log join {reader.root}"
        )
    lines = json.loads((folder / DONE).read_text("utf-8"))["parts"]
    index = IdIndex(folder, [Part(**line) for line in lines], ("request_id", "position", "y", "y_multi"))
    for record in reader.requests():
        found = index.between(int(record.request_id.min()), int(record.request_id.max()))
        yield with_labels(record, pa.concat_tables(found)) if found else record


def with_labels(record: LoggedRequests, labels: pa.Table) -> LoggedRequests:
    """A record with y and `shown` from rows of the table of labels."""
    order = np.argsort(record.request_id, kind="stable")
    ids = labels["request_id"].to_numpy()
    row = order[np.minimum(np.searchsorted(record.request_id[order], ids), len(order) - 1)]
    known = record.request_id[row] == ids
    place = np.full((len(record), int(record.position.max(initial=0)) + 1), MISSING, np.int64)
    served = np.flatnonzero(record.position > 0)
    place[record.request[served], record.position[served]] = served
    at = place[row[known], labels["position"].to_numpy()[known]]
    shown = labels["y_multi"].combine_chunks().field("impression")
    return replace(
        record,
        y=_placed(record.y, at, labels["y"].fill_null(MISSING).to_numpy()[known]),
        shown=_placed(record.shown, at, shown.fill_null(0).to_numpy(zero_copy_only=False)[known]),
    )


def _placed(values: Any, at: Any, new: Any) -> Any:
    changed = values.copy()
    changed[at] = new
    return changed


def _events(reader: LogReader, table: str) -> IdIndex:
    """The usable parts of a table of events."""
    parts = [part for part in reader.manifest.of(table) if reader.is_usable(part)]
    return IdIndex(reader.root, parts, EVENT_COLUMNS)


def _summary(record: LoggedRequests, table: pa.Table) -> Counter[str]:
    y = table["y"].fill_null(MISSING).to_numpy()
    return Counter(
        requests=len(record), labels=len(y), positives=int((y == 1).sum()), negatives=int((y == 0).sum())
    )


def _written(folder: Path, number: int, table: pa.Table, record: LoggedRequests) -> Part:
    """One part of labels in the staging folder."""
    path = f"part-{number:06d}.parquet"
    data = parquet_bytes([table])
    digest = write_bytes(folder, path, data)
    times, ids = record.ts_ms, record.request_id
    span = (int(times.min()), int(times.max()))
    first, last = int(ids.min()), int(ids.max())
    return Part(
        "labels", path, len(table), *span, digest, SCHEMA_VERSION, "join", number, first, last, len(data)
    )


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
