"""Work on a GPU that is recorded once and replayed: starting hundreds of small parts takes the host longer than doing
them takes the device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

WARM = 3  # times work is done as usual first: kernels are compiled and constants made before anything is recorded


class Recorded:
    """Does the same work again and again, on tensors that stay where they are.

    What changes between two calls must be written into those tensors, or into the seed of the generator. Nothing in
    the work may wait for the device. It is called under `on(stream)`.
    """

    def __init__(
        self,
        work: Callable[[], None],
        stream: torch.cuda.Stream,
        generator: torch.Generator | None = None,
    ) -> None:
        self.work, self.stream, self.generator = work, stream, generator
        self.done = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """The work once more."""
        self.done += 1
        if self.done <= WARM:
            self.work()
            return
        if self.graph is None:
            graph = torch.cuda.CUDAGraph()
            if self.generator is not None:
                graph.register_generator_state(self.generator)
            with torch.cuda.graph(graph, stream=self.stream):
                self.work()
            self.graph = graph
        self.graph.replay()


def stream_for(device: torch.device) -> torch.cuda.Stream | None:
    """A stream of one's own, where recording is possible; None on a processor."""
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


@contextmanager
def on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """On a stream of one's own: what was asked for before is done first, and this before what comes after.

    None: nothing changes.
    """
    if stream is None:
        yield
        return
    usual = torch.cuda.current_stream(stream.device)
    stream.wait_stream(usual)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        usual.wait_stream(stream)
