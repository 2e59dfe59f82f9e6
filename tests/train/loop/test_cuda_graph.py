from contextlib import contextmanager

import pytest
import torch

from shortlist.train.loop.cuda_graph import WARMUP, Recorded, on, stream_for

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_a_cpu_nothing_changes():
    assert stream_for(torch.device("cpu")) is None
    with on(None):
        assert torch.ones(2).sum() == 2


def test_first_runs_are_eager():
    runs = []
    recorded = Recorded(lambda: runs.append(1), stream=None)  # the stream is not used before recording
    for _ in range(WARMUP):
        recorded()
    assert len(runs) == WARMUP
    assert recorded.graph is None


def test_later_runs_are_recorded_once_and_replayed(monkeypatch):
    calls = []

    class Graph:
        def register_generator_state(self, generator):
            calls.append(("generator", generator))

        def replay(self):
            calls.append("replay")

    @contextmanager
    def recording(graph, stream):
        calls.append("record")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    recorded = Recorded(lambda: calls.append("work"), stream="mine", generator="dice")
    for _ in range(WARMUP + 3):
        recorded()
    assert calls == ["work"] * WARMUP + [("generator", "dice"), "record", "work"] + ["replay"] * 3


@cuda
def test_replay_uses_the_values_written_since_the_recording():
    inputs, outputs = torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda")
    generator, results = torch.Generator("cuda"), []

    def work():
        outputs.copy_(inputs * 2 + torch.rand(3, generator=generator, device="cuda"))

    stream = stream_for(torch.device("cuda"))
    recorded = Recorded(work, stream, generator)
    with on(stream):
        for value in range(8):
            inputs.fill_(value)
            generator.manual_seed(value)
            recorded()
            results.append(outputs.tolist())
    assert recorded.graph is not None
    for value, expected in enumerate(results):
        generator.manual_seed(value)
        inputs.fill_(value)
        work()
        assert outputs.tolist() == expected


@cuda
def test_work_queued_before_is_done_first():
    stream = stream_for(torch.device("cuda"))
    large = torch.zeros(10_000_000, device="cuda")
    for _ in range(20):
        large += 1
    with on(stream):
        assert torch.cuda.current_stream() == stream
        total = large.mean()
    large += 1
    assert float(total) == 20
