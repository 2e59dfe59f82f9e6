"""The full-stage log: what it adds to a request, how large a row is, how fast rows are written and read."""

import statistics
import tempfile
import time
from pathlib import Path

import torch

from shortlist.data import Candidates, Query, Vocabulary
from shortlist.evaluate.latency import one_thread
from shortlist.feedback.inspection import LogSummary, inspect_log
from shortlist.feedback.write.from_trace import RequestMeta, request_id
from shortlist.feedback.write.sampling import EVERYTHING, Sampling
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from shortlist.grammar import Pipeline, as_pipeline
from shortlist.lab.bench.pipeline import ConstantNominator, ConstantScorer
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.pipeline import Trace, run
from shortlist.progress import Progress, silent

SOURCE = "target of this project"
ITEMS = 100_000
NOMINATED = 2000
CUTS = (500, 50, 10)
REQUESTS = 1000
BLOCK = 20  # requests with and without the logger, in turn
WARM_UP = 2  # blocks
START_MS = 1_700_000_000_000
DISTINCT = 50  # queries with their own candidates and scores


def bench_log(seed: int = 0, requests: int = REQUESTS, progress: Progress = silent) -> Result:
    """One request at a time with 2,000 nominated candidates through a pool and three scorers with cuts.

    `added_ms` is the time of `offer` on the request thread while the background thread writes. `request_ms` is that of
    a whole request, with and without the logger in turn. Rows are counted in the file of candidates; scores are random.
    """
    began = start()
    pipelines = [funnel(seed + number) for number in range(DISTINCT)]
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder, one_thread():
        times = _requests(Path(folder) / "sampled", pipelines, requests, progress)
        traces = [
            run(pipeline, Query.of([[]], seeds=[number])).trace for number, pipeline in enumerate(pipelines)
        ]
        seconds = _written(Path(folder) / "whole", traces, requests // 5, EVERYTHING)
        read_began = time.perf_counter()
        whole = inspect_log(Path(folder) / "whole")
        read = time.perf_counter() - read_began
        some = inspect_log(Path(folder) / "sampled")
    added, with_log, without = times
    figures = {
        "added_ms_p99": _p99(added),
        "added_ms_p50": statistics.median(added),
        "request_ms_p50_with": statistics.median(with_log),
        "request_ms_p50_without": statistics.median(without),
        "request_ms_p99_with": _p99(with_log),
        "request_ms_p99_without": _p99(without),
        "bytes_per_row": whole.bytes_per_row,
        "bytes_per_request_sampled": some.bytes / max(some.requests, 1),
        "rows_per_s": whole.rows / seconds,
        "read_rows_per_s": whole.rows / read,
        "dropped_requests": float(_lost(some) + _lost(whole)),
    }
    rows = [
        row("offer", "added ms", added),
        row("request with log", "ms", with_log),
        row("request without log", "ms", without),
    ]
    claims = [at_most("added_ms_p99", SOURCE, figures["added_ms_p99"], 0.2)]
    profile = f"B=1, {NOMINATED} nominated, {len(CUTS) + 1} stages, {requests} requests"
    return result("log", profile, [seed], began, rows, claims, figures=figures)


def funnel(seed: int) -> Pipeline:
    """A pool of two nominators that share 500 of 2,000 items, and scorers with cuts; scores are constants."""
    generator = torch.Generator().manual_seed(seed)
    items = torch.randperm(ITEMS, generator=generator)[:NOMINATED]
    parts = [items[: NOMINATED * 5 // 8], items[NOMINATED * 3 // 8 :]]
    pool = [
        ConstantNominator(
            Candidates.of(part[None], torch.linspace(1, 0, len(part))[None]),
            limit=len(part),
            name=f"n{number}",
        )
        for number, part in enumerate(parts)
    ]
    stages = pool[0] + pool[1]
    for number, k in enumerate(CUTS):
        scores = torch.randn(1, ITEMS, generator=generator)[:, : 2 * NOMINATED]
        stages = stages >> ConstantScorer(scores, name=f"s{number}") % k  # type: ignore[assignment]
    return as_pipeline(stages)


def _requests(
    folder: Path, pipelines: list[Pipeline], requests: int, progress: Progress
) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds of `offer`, of requests with it and of requests without it."""
    added, with_log, without = list[float](), list[float](), list[float]()
    number = 0
    with FullStageLogger(folder, Vocabulary.of(range(ITEMS)), settings=LogSettings(rotate_seconds=1)) as log:
        for block in range(-WARM_UP, -(-requests // BLOCK)):
            some = [pipelines[at % DISTINCT] for at in range(number, number + BLOCK)]
            plain = [_timed(pipeline)[1] for pipeline in some]
            times = [_logged(log, pipeline, number + at) for at, pipeline in enumerate(some)]
            log.flush()  # the background thread must not disturb the requests without the log
            number += BLOCK
            if block >= 0:
                without += plain
                added += [offered for offered, _ in times]
                with_log += [whole for _, whole in times]
            progress("bench log", max(block, 0) * BLOCK, requests)
    return added, with_log, without


def _logged(log: FullStageLogger, pipeline: Pipeline, number: int) -> tuple[float, float]:
    """Milliseconds of `offer` and of the whole request."""
    trace, answered = _timed(pipeline)
    began = time.perf_counter()
    log.offer(trace, _meta(number))
    offered = (time.perf_counter() - began) * 1e3
    return offered, answered + offered


def _timed(pipeline: Pipeline) -> tuple[Trace, float]:
    began = time.perf_counter()
    trace = run(pipeline, Query.of([[]])).trace
    return trace, (time.perf_counter() - began) * 1e3


def _written(folder: Path, traces: list[Trace], requests: int, sampling: Sampling) -> float:
    """Seconds of a log of whole requests, from the first offer to the last byte on the disk."""
    settings = LogSettings(queue=max(requests, 1))
    began = time.perf_counter()
    with FullStageLogger(folder, Vocabulary.of(range(ITEMS)), settings=settings, sampling=sampling) as log:
        for number in range(requests):
            log.offer(traces[number % len(traces)], _meta(number))
    return time.perf_counter() - began


def _meta(number: int) -> RequestMeta:
    ts = START_MS + number * 10
    return RequestMeta([request_id(ts, 0, number)], [ts], [number % 1000])


def _lost(summary: LogSummary) -> int:
    return summary.dropped_requests + summary.failed_requests


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98] if len(times) > 1 else times[0]
