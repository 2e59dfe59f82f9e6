from contextlib import contextmanager

import pytest
import torch

from shortlist.train.loop.cuda_graph import WARM, Recorded, on, stream_for

cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_on_a_processor_nothing_changes():
    assert stream_for(torch.device("cpu")) is None
    with on(None):
        assert torch.ones(2).sum() == 2


def test_work_is_done_as_usual_before_it_is_recorded():
    done = []
    one = Recorded(
        lambda: done.append(1), stream=None
    )  # never reached: nothing is recorded while it is warming up
    for _ in range(WARM):
        one()
    assert len(done) == WARM
    assert one.graph is None


def test_after_that_it_is_recorded_once_and_replayed(monkeypatch):
    said = []

    class Graph:
        def register_generator_state(self, generator):
            said.append(("generator", generator))

        def replay(self):
            said.append("replay")

    @contextmanager
    def recording(graph, stream):
        said.append("record")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    one = Recorded(lambda: said.append("work"), stream="mine", generator="dice")
    for _ in range(WARM + 3):
        one()
    assert said == ["work"] * WARM + [("generator", "dice"), "record", "work"] + ["replay"] * 3


@cuda
def test_a_replay_does_what_the_work_does_with_what_was_written_since():
    given, found = torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda")
    generator, drawn = torch.Generator("cuda"), []

    def work():
        found.copy_(given * 2 + torch.rand(3, generator=generator, device="cuda"))

    stream = stream_for(torch.device("cuda"))
    one = Recorded(work, stream, generator)
    with on(stream):
        for value in range(8):
            given.fill_(value)
            generator.manual_seed(value)
            one()
            drawn.append(found.tolist())
    assert one.graph is not None
    for value, seen in enumerate(drawn):
        generator.manual_seed(value)
        given.fill_(value)
        work()
        assert found.tolist() == seen


@cuda
def test_what_was_asked_for_before_is_done_before():
    stream = stream_for(torch.device("cuda"))
    large = torch.zeros(10_000_000, device="cuda")
    for _ in range(20):
        large += 1
    with on(stream):
        assert torch.cuda.current_stream() == stream
        total = large.mean()
    large += 1
    assert float(total) == 20
