"""The writer: references on the request thread, work in the background, whole requests or nothing."""

import gc
import json
import threading
import weakref
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from shortlist.data import Vocabulary
from shortlist.errors import ArtifactError, ConfigError
from shortlist.feedback import manifest
from shortlist.feedback.manifest import MANIFEST, read_manifest
from shortlist.feedback.reader import LogReader
from shortlist.feedback.record import concat
from shortlist.feedback.write import buffer, writer
from shortlist.feedback.write.from_trace import RequestMeta, from_trace
from shortlist.feedback.write.sampling import EVERYTHING, Sampling, head_kept, sampled
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from tests.feedback.logs import START, Ordered, funnel, meta_of, traces, write_log
from tests.worlds import listed

ITEMS = Vocabulary.of(range(60))


def read_all(root, **options):
    reader = LogReader(root, **options)
    return concat(list(reader.requests())), reader


@pytest.mark.parametrize(
    "ids", [range(100, 160), [f"item-{row}" for row in range(60)]], ids=["whole numbers", "text"]
)
@pytest.mark.parametrize("sampling", [EVERYTHING, Sampling()], ids=["everything", "sampled"])
def test_log_returns_what_was_offered(tmp_path, ids, sampling):
    """Spec 23: bit-equal ids, S, ranks after logger -> reader."""
    items = Vocabulary.of(list(ids))
    runs = traces(funnel(60, 20, 9, 4), 7, 3)
    write_log(tmp_path, runs, sampling, items=items)
    found, reader = read_all(tmp_path, check=True)
    metas = [meta_of(trace, first=3 * number) for number, trace in enumerate(runs)]
    expected = concat([sampled(from_trace(*one, items), sampling) for one in zip(runs, metas, strict=True)])
    for name in (
        "request_id",
        "ts_ms",
        "item_id",
        "stage",
        "ranks",
        "channel_mask",
        "nominator_ranks",
        "position",
        "incl_prob",
        "reason",
    ):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for name in ("seed", "n_in", "n_out", "complete", "offsets", "n_stages", "policy_version", "filtered"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert np.array_equal(found.scores, expected.scores, equal_nan=True)
    assert found.user_id.tolist() == expected.user_id.tolist()
    assert found.funnels == expected.funnels
    assert not reader.problems.counts


def test_requests_of_pipelines_with_different_depth_share_a_part(tmp_path):
    runs = [*traces(funnel(60, 20, 9, 4), 2), *traces(funnel(60, 5), 2)]
    write_log(tmp_path, runs)
    found, reader = read_all(tmp_path)
    assert sorted(found.n_stages.tolist()) == [2, 2, 4, 4]
    assert {len(one.stages) for one in found.funnels} == {2, 4}
    assert (found.n_out[found.n_stages == 2, 2:] == -1).all()
    assert not reader.problems.counts


def test_full_queue_drops_whole_requests_and_the_manifest_has_their_number(tmp_path, monkeypatch):
    """Spec 23."""
    gate = threading.Event()

    def waiting(*given):
        gate.wait()
        return from_trace(*given)

    monkeypatch.setattr(writer, "from_trace", waiting)
    runs = traces(funnel(60, 20, 5), 30, 2)
    log = FullStageLogger(tmp_path, ITEMS, settings=LogSettings(queue=4), sampling=EVERYTHING)
    taken = [log.offer(trace, meta_of(trace, first=2 * number)) for number, trace in enumerate(runs)]
    gate.set()
    log.close()
    found, _ = read_all(tmp_path)
    lost = 2 * taken.count(False)
    assert lost >= 2 * 25
    assert log.counts.dropped == lost == sum(part.dropped_requests for part in read_manifest(tmp_path).parts)
    assert len(found) == 60 - lost == log.counts.written
    assert (np.bincount(found.request) == 60).all()  # all candidates of each request


def test_drops_are_in_the_manifest_if_nothing_else_is(tmp_path):
    log = FullStageLogger(tmp_path, ITEMS, settings=LogSettings(head_rate=0.0))
    trace = traces(funnel(60, 20, 5), 1)[0]
    assert not log.offer(trace, meta_of(trace))
    log.close()
    assert [part.skipped_requests for part in read_manifest(tmp_path).parts] == [1]
    assert not log.offer(trace, meta_of(trace))  # closed


def test_memory_is_bounded_by_the_queue(tmp_path, monkeypatch):
    """Spec 36 without a time: 1,000 requests of 10,000 candidates, of which only the queue is kept."""
    gate = threading.Event()
    monkeypatch.setattr(writer, "from_trace", lambda *given: gate.wait() and from_trace(*given))
    trace = traces(funnel(10_000, 50), 1)[0]
    log = FullStageLogger(tmp_path, Vocabulary.of(range(10_000)), settings=LogSettings(queue=16))
    alive = []
    for number in range(1000):
        one = replace(trace)
        alive.append(weakref.ref(one))
        log.offer(one, meta_of(one, first=number))
        del one
    gc.collect()
    assert sum(one() is not None for one in alive) <= 16 + 1
    gate.set()
    log.close()


def test_put_waits_for_room_and_drops_nothing(tmp_path, monkeypatch):
    gate, sizes = threading.Event(), []
    monkeypatch.setattr(writer, "from_trace", lambda *given: gate.wait() and from_trace(*given))
    trace = traces(funnel(60, 20, 5), 1, 4)[0]
    log = FullStageLogger(tmp_path, ITEMS)

    def simulate():
        for number in range(30):
            assert log.put(trace, meta_of(trace, first=4 * number))
            sizes.append(len(log._queue))

    thread = threading.Thread(target=simulate)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    gate.set()
    thread.join()
    log.close()
    assert max(sizes) <= writer.MOST_PUT
    assert (log.counts.written, log.counts.dropped) == (120, 0)


def test_request_thread_neither_converts_nor_writes(tmp_path, monkeypatch):
    """Spec 36: only references are put into the queue."""
    threads = set()

    def spied(module, name):
        real = getattr(module, name)

        def spy(*given, **options):
            threads.add(threading.current_thread())
            return real(*given, **options)

        monkeypatch.setattr(module, name, spy)

    for module, name in (
        (writer, "from_trace"),
        (writer, "sampled"),
        (writer, "write_buffer"),
        (buffer, "append_parts"),
    ):
        spied(module, name)
    write_log(tmp_path, traces(funnel(60, 20, 5), 5))
    assert threads
    assert threading.current_thread() not in threads


@pytest.mark.parametrize(
    "settings", [LogSettings(rotate_bytes=1), LogSettings(rotate_seconds=0)], ids=["bytes", "age"]
)
def test_parts_are_finished_at_a_size_or_an_age(tmp_path, settings):
    write_log(tmp_path, traces(funnel(60, 20, 5), 4), settings=settings)
    assert len(read_manifest(tmp_path).of("requests")) == 4
    assert len(read_all(tmp_path)[0]) == 4


def test_old_buffer_is_written_although_no_request_arrives(tmp_path):
    trace = traces(funnel(60, 20, 5), 1)[0]
    with FullStageLogger(tmp_path, ITEMS, settings=LogSettings(rotate_seconds=0.05)) as log:
        log.offer(trace, meta_of(trace))
        for _ in range(200):
            if read_manifest(tmp_path).parts:
                break
            threading.Event().wait(0.02)
        assert read_manifest(tmp_path).parts


def test_flush_waits_until_everything_is_on_the_disk(tmp_path):
    trace = traces(funnel(60, 20, 5), 1)[0]
    with FullStageLogger(tmp_path, ITEMS) as log:
        log.offer(trace, meta_of(trace))
        log.flush()
        assert len(read_all(tmp_path)[0]) == 1


def test_requests_of_several_hours_go_to_their_partitions(tmp_path):
    write_log(tmp_path, traces(funnel(60, 20, 5), 3, 2), step=3_600_000)
    folders = [part.path.split("/")[1:3] for part in read_manifest(tmp_path).of("candidates")]
    assert folders == [
        *(["dt=2023-11-14", f"hour={hour}"] for hour in (22, 23)),
        *(["dt=2023-11-15", f"hour={hour:02d}"] for hour in range(4)),
    ]
    assert len(read_all(tmp_path)[0]) == 6


def test_several_writers_have_their_own_parts(tmp_path):
    runs = traces(funnel(60, 20, 5), 6)
    logs = [FullStageLogger(tmp_path, ITEMS, writer=name) for name in ("a", "b")]
    for number, trace in enumerate(runs):
        logs[number % 2].offer(trace, meta_of(trace, first=number))
    for log in logs:
        log.close()
    assert len(read_all(tmp_path)[0]) == 6
    assert {part.writer for part in read_manifest(tmp_path).parts} == {"a", "b"}


def test_second_writer_of_the_same_name_is_refused(tmp_path):
    with FullStageLogger(tmp_path, ITEMS), pytest.raises(ArtifactError, match="its own writer name"):
        FullStageLogger(tmp_path, ITEMS)
    FullStageLogger(tmp_path, ITEMS).close()


def test_start_removes_what_a_killed_writer_left(tmp_path):
    write_log(tmp_path, traces(funnel(60, 20, 5), 2))
    folder = next(tmp_path.glob("table=candidates/*/*"))
    for name in ("part-0-9.parquet.tmp", "part-gone-1.parquet.tmp"):
        (folder / name).write_bytes(b"half")
    with (tmp_path / MANIFEST).open("ab") as handle:
        handle.write(b'{"table": "candi')
    log = FullStageLogger(tmp_path, ITEMS)
    assert (log.removed_temporary, log.removed_bytes) == (2, 16)
    log.close()
    assert not list(tmp_path.rglob("*.tmp"))
    found, reader = read_all(tmp_path)
    assert len(found) == 2
    assert not reader.problems.counts


def test_start_keeps_the_unfinished_file_of_a_writer_that_runs(tmp_path):
    with FullStageLogger(tmp_path, ITEMS, writer="other"):
        path = tmp_path / "table=candidates" / "part-other-1.parquet.tmp"
        path.parent.mkdir()
        path.write_bytes(b"half")
        FullStageLogger(tmp_path, ITEMS).close()
        assert path.exists()


def test_numbers_of_parts_are_not_used_twice(tmp_path):
    for _ in range(3):
        write_log(tmp_path, traces(funnel(60, 20, 5), 1))
    (tmp_path / read_manifest(tmp_path).of("requests")[-1].path).with_name("part-0-7.parquet").write_bytes(
        b"orphan"
    )
    write_log(tmp_path, traces(funnel(60, 20, 5), 1))
    assert [part.seq for part in read_manifest(tmp_path).of("requests")] == [0, 1, 2, 8]


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (RequestMeta([1, 2], [START, START]), "each of 1 requests"),
        (RequestMeta([1], [1 << 60]), "milliseconds since 1970"),
    ],
)
def test_request_that_cannot_be_converted_does_not_harm_others(tmp_path, meta, reason):
    runs = traces(funnel(60, 20, 5), 3)
    log = FullStageLogger(tmp_path, ITEMS)
    log.offer(runs[0], meta_of(runs[0]))
    log.offer(runs[1], meta)
    log.offer(runs[2], meta_of(runs[2], first=2))
    with pytest.raises(ArtifactError, match=reason):
        log.close()
    assert len(read_all(tmp_path)[0]) == 2
    assert (
        log.counts.failed
        == len(meta.request_id)
        == sum(p.failed_requests for p in read_manifest(tmp_path).parts)
    )


def test_items_outside_of_the_catalogue_are_refused(tmp_path):
    trace = traces(funnel(60, 20, 5), 1)[0]
    log = FullStageLogger(tmp_path, Vocabulary.of(range(10)), sampling=EVERYTHING)
    log.offer(trace, meta_of(trace))
    with pytest.raises(ArtifactError, match="the catalogue's 10 items"):
        log.close()


def test_failed_write_loses_its_requests_and_the_next_part_is_written(tmp_path, monkeypatch):
    runs = traces(funnel(60, 20, 5), 2)
    real, broken = manifest.append_parts, iter([True, False])

    def full(root, parts):
        if next(broken):
            raise OSError(28, "No space left on device")
        real(root, parts)

    monkeypatch.setattr(buffer, "append_parts", full)
    log = FullStageLogger(tmp_path, ITEMS)
    log.offer(runs[0], meta_of(runs[0]))
    with pytest.raises(ArtifactError, match="No space left"):
        log.flush()
    log.offer(runs[1], meta_of(runs[1], first=1))
    with pytest.raises(ArtifactError, match="1 requests could not be logged"):
        log.close()
    assert len(read_all(tmp_path)[0]) == 1
    assert sum(part.failed_requests for part in read_manifest(tmp_path).parts) == 1


def test_logged_share_depends_on_the_id_only(tmp_path):
    runs = traces(funnel(60, 20, 5), 10, 10)
    with FullStageLogger(tmp_path, ITEMS, settings=LogSettings(head_rate=0.3)) as log:
        for number, trace in enumerate(runs):
            log.offer(trace, meta_of(trace, first=10 * number))
    ids = np.concatenate([meta_of(trace, first=10 * number).request_id for number, trace in enumerate(runs)])
    found, _ = read_all(tmp_path)
    assert np.array_equal(found.request_id, ids[head_kept(ids, 0.3)])
    assert log.counts.skipped == 100 - len(found)


def test_clock_that_goes_backwards_is_counted(tmp_path):
    runs = traces(funnel(60, 20, 5), 3)
    with FullStageLogger(tmp_path, ITEMS) as log:
        for number, first in enumerate((5, 3, 9)):
            log.offer(runs[number], meta_of(runs[number], first=first))
    assert sum(part.clock_backwards for part in read_manifest(tmp_path).parts) == 1


def test_context_has_the_declared_type(tmp_path):
    runs = traces(funnel(60, 20, 5), 2)
    log = FullStageLogger(tmp_path, ITEMS, context=pa.struct({"device": pa.string(), "age": pa.int32()}))
    log.offer(runs[0], meta_of(runs[0], context=[{"device": "phone", "age": 3}]))
    log.offer(runs[1], meta_of(runs[1], first=1, context=[{"device": "tv", "age": "old"}]))
    with pytest.raises(ArtifactError, match="1 requests could not be logged"):
        log.close()
    path = tmp_path / read_manifest(tmp_path).of("requests")[0].path
    assert pa.parquet.read_table(path)["context"].to_pylist() == [{"device": "phone", "age": 3}]


def test_scores_of_16_bits_are_read_as_32(tmp_path):
    runs = traces(funnel(60, 20, 5), 2)
    write_log(tmp_path, runs, settings=LogSettings(score_bits=16))
    found, _ = read_all(tmp_path)
    assert found.scores.dtype == np.float32
    expected = from_trace(runs[0], meta_of(runs[0])).scores[:, 0].astype(np.float16)
    assert sorted(found.take(np.array([0])).scores[:, 0].tolist()) == sorted(
        expected.astype(np.float32).tolist()
    )


@pytest.mark.parametrize("settings", [{"score_bits": 24}, {"queue": 0}, {"head_rate": 1.5}])
def test_settings_outside_their_range_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        LogSettings(**settings)


def test_writer_name_that_is_no_file_name_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="letters, digits"):
        FullStageLogger(tmp_path, ITEMS, writer="../x")


def test_manifest_line_has_the_fields_of_the_specification(tmp_path):
    write_log(tmp_path, traces(funnel(60, 20, 5), 1))
    line = json.loads((tmp_path / MANIFEST).read_text().splitlines()[0])
    assert {"path", "rows", "min_ts", "max_ts", "sha256", "schema_version", "dropped_requests"} <= line.keys()


def test_user_id_of_another_type_is_null_and_counted(tmp_path):
    trace = traces(funnel(60, 20, 5), 1, 3)[0]
    with FullStageLogger(tmp_path, ITEMS, users=Vocabulary.of([1, 2])) as log:
        log.offer(trace, replace(meta_of(trace), user_id=["7", "anna", None]))
    assert read_all(tmp_path)[0].user_id.tolist() == [7, -1, -1]
    assert sum(part.users_not_stored for part in read_manifest(tmp_path).parts) == 1


def test_request_without_candidates_comes_back(tmp_path):
    trace = traces(listed("none", [-1]) >> Ordered(3, name="rank") % 2, 1, 2)[0]
    write_log(tmp_path, [trace], items=ITEMS)
    found, reader = read_all(tmp_path)
    assert (len(found), found.n_candidates) == (2, 0)
    assert not reader.problems.counts


def test_every_offer_of_many_threads_is_written_or_counted(tmp_path):
    trace = traces(funnel(60, 20, 5), 1)[0]
    taken = list[bool]()
    with FullStageLogger(tmp_path, ITEMS, settings=LogSettings(queue=3)) as log:

        def offer(number):
            taken.extend(log.offer(trace, meta_of(trace, first=100 * number + at)) for at in range(50))

        threads = [threading.Thread(target=offer, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert (log.counts.written, log.counts.dropped) == (taken.count(True), taken.count(False))
    assert sum(part.dropped_requests for part in read_manifest(tmp_path).parts) == log.counts.dropped
    assert len(read_all(tmp_path)[0]) == log.counts.written
