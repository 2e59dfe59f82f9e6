"""Events per second of a store of user states on one core, one at a time and in batches, and bytes per user."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from shortlist.evaluate.latency import one_thread
from shortlist.lab.bench.state.replay import BATCH, delivered, replayed
from shortlist.lab.bench.state.stream import NOW_MS, Size, Stream, empty_store, random_model, random_stream
from shortlist.lab.result import Result, at_least, at_most, result, row, start
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.progress import Progress, silent
from shortlist.state import ApplyReport, EventLog, UserEvent, UserStateStore

SOURCE = "target of this project"
LEAST_PER_S = 20_000
STORAGES = ("fp32", "fp16", "int8")

Call = Callable[[UserStateStore], ApplyReport]


@dataclass(frozen=True)
class Rate:
    """Events per second of processor time and of wall time, by repeat."""

    cpu: list[float]
    wall: list[float]


def bench_state(seed: int = 0, size: Size | None = None, progress: Progress = silent) -> Result:
    """Events per second of processor time: the store uses one core, and other work on the machine does not count.

    Every measurement follows a warm-up with as many events, so that most users have a record.
    """
    began, size = start(), size or Size()
    model = random_model(size, seed)
    with one_thread(), tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        rates = _rates(model, size, seed, Path(folder), progress)
        figures = {f"events_per_s_{name}": median(rate.cpu) for name, rate in rates.items()}
        figures |= {f"events_per_s_{name}_wall": median(rate.wall) for name, rate in rates.items()}
        figures |= _bytes(model, size, seed)
        found = replayed(size, seed, progress)
    figures |= {
        "replay_users": found.users,
        "replay_different_users": found.different,
        "replay_deliveries": found.deliveries,
        "replay_duplicates": found.duplicates,
        "replay_in_order_s": found.seconds_in_order,
        "replay_shuffled_s": found.seconds_shuffled,
    }
    rows = [row(name, "events per second of processor time", rate.cpu) for name, rate in rates.items()]
    rows += [row(name, "events per second", rate.wall) for name, rate in rates.items()]
    claims = [
        at_least("events_per_s_batched", SOURCE, figures["events_per_s_batched"], LEAST_PER_S),
        at_most("replay_different_users", SOURCE, float(found.different), 0),
    ]
    profile = (
        f"width {size.width}, {size.items:,} items, {size.users:,} users, {size.active:,} of them active, batches of "
        f"{BATCH}, one thread"
    )
    return result("state", profile, [seed], began, rows, claims, figures=figures)


def _rates(
    model: TwoTimeScale, size: Size, seed: int, folder: Path, progress: Progress
) -> Mapping[str, Rate]:
    """Rates by the form of the events and the size of calls."""
    many, few = (random_stream(size, 2 * count, seed) for count in (size.events, size.single))
    jobs = {
        "single": (few, 1, False),
        "batched": (many, BATCH, False),
        "batched_columns": (many, BATCH, True),
        "batched_on_disk": (many, BATCH, False),
    }
    rates = dict[str, Rate]()
    for number, (name, (stream, batch, columns)) in enumerate(jobs.items()):
        progress("bench state", number, len(jobs))
        calls, rate = _calls(stream, batch, columns), Rate([], [])
        for repeat in range(size.repeats):
            with EventLog(folder / f"{name}-{repeat}" if name.endswith("disk") else None) as log:
                _measure(rate, empty_store(model, size, log=log), calls, len(stream.users) // 2)
        rates[name] = rate
    return rates


def _calls(stream: Stream, batch: int, columns: bool) -> list[Call]:
    """What is given to the store, made before the clock starts."""
    calls = list[Call]()
    for at in range(0, len(stream.users), batch):
        part = stream.take(np.arange(at, min(at + batch, len(stream.users))))
        calls.append(_as_columns(part) if columns else partial(_apply, part.events()))
    return calls


def _as_columns(part: Stream) -> Call:
    users, items = part.users.tolist(), part.items.tolist()
    return lambda store: store.apply_columns(users, items, part.times, part.ids, NOW_MS)


def _apply(events: list[UserEvent], store: UserStateStore) -> ApplyReport:
    return store.apply(events, NOW_MS)


def _measure(rate: Rate, store: UserStateStore, calls: list[Call], events: int) -> None:
    """Add the rate of the second half of the calls, after the first."""
    half = len(calls) // 2
    for call in calls[:half]:
        call(store)
    cpu, wall = time.process_time(), time.perf_counter()
    for call in calls[half:]:
        call(store)
    rate.cpu.append(events / (time.process_time() - cpu))
    rate.wall.append(events / (time.perf_counter() - wall))


def _bytes(model: TwoTimeScale, size: Size, seed: int) -> dict[str, float]:
    """Bytes of a record, and of records and the index of users together, by number format."""
    stream, figures = random_stream(size, 2 * size.events, seed), dict[str, float]()
    for storage in STORAGES:
        store = empty_store(model, size, storage)
        delivered(store, stream)
        memory = store.memory()
        figures[f"record_bytes_{storage}"] = memory.record_bytes
        figures[f"bytes_per_user_{storage}"] = memory.bytes_per_user
    return figures | {"bytes_per_event": memory.bytes_per_event}
