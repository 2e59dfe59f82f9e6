"""Slates as rows of an Arrow batch: one row per recommended item, in row numbers; ids and titles come later."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from shortlist.pipeline.run import Slate

SCHEMA = pa.schema(
    {
        "place": pa.int64(),  # position of the user in the list of users
        "item": pa.int32(),  # row of the item
        "rank": pa.int32(),  # from 1
        "score": pa.float32(),  # null where it is not finite
        "nominators": pa.int64(),  # bit n is set where nominator n nominated the item
        "propensity": pa.float32(),  # null where no stage samples
    }
)
DEGRADED = b"degraded"  # metadata: users by stage that was skipped
MAX_NOMINATORS = 63  # bits of a row


def slate_rows(slate: Slate, places: NDArray[np.int64], nominators: Sequence[str]) -> pa.RecordBatch:
    """The rows of a batch of slates whose users have these places."""
    found = slate.candidates
    valid = found.valid
    request, at = valid.nonzero(as_tuple=True)
    scores = found.scores[request, at]
    nominated = slate.trace.nominated.columns
    slot = found.slot[request, at]
    bits = torch.zeros_like(slot)
    for number, name in enumerate(nominators):
        bits |= (~nominated[f"{name}.rank"][request, slot].isnan()).long() << number
    sampled = found.columns["propensity"][request, at].float() if "propensity" in found.columns else None
    columns = [
        pa.array(places[request.numpy()]),
        pa.array(found.items[request, at].to(torch.int32).numpy()),
        pa.array(valid.cumsum(1)[request, at].to(torch.int32).numpy()),
        pa.array(scores.numpy(), mask=~scores.isfinite().numpy()),
        pa.array(bits.numpy()),
        pa.nulls(len(at), pa.float32()) if sampled is None else pa.array(sampled.numpy()),
    ]
    skipped = Counter(note.stage for note in slate.trace.degraded)
    return with_degraded(pa.record_batch(columns, schema=SCHEMA), dict.fromkeys(skipped, len(places)))


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches by place; ranks stay in order."""
    table = pa.Table.from_batches([one.replace_schema_metadata() for one in batches], SCHEMA)
    order = np.argsort(table["place"].to_numpy(), kind="stable")
    columns = [column.take(pa.array(order)).combine_chunks() for column in table.columns]
    skipped = sum((Counter(degraded(one)) for one in batches), Counter[str]())
    return with_degraded(pa.record_batch(columns, schema=SCHEMA), skipped)


def with_degraded(rows: pa.RecordBatch, skipped: Mapping[str, int]) -> pa.RecordBatch:
    """The same rows with the number of users whose slates lack a stage, by stage."""
    return rows.replace_schema_metadata({DEGRADED: json.dumps(dict(skipped), sort_keys=True)})


def degraded(rows: pa.RecordBatch) -> dict[str, int]:
    """The number of users whose slates lack a stage that failed, by stage."""
    counts: dict[str, int] = json.loads((rows.schema.metadata or {}).get(DEGRADED, b"{}"))
    return counts
