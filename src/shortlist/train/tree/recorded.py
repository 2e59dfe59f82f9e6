"""Work on a GPU that is recorded once and replayed: starting its hundreds of parts one by one takes the host longer
than the device needs to do them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

WARM = 3  # times work is done as usual first: kernels are compiled and constants made before anything is recorded


class Recorded:
    """Does the same work again and again, on tensors that stay where they are.

    What changes between two calls must be written into those tensors, or into the generator's seed.
    """

    def __init__(
        self, work: Callable[[], None], generator: torch.Generator, stream: torch.cuda.Stream
    ) -> None:
        self.work, self.generator, self.stream = work, generator, stream
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
            graph.register_generator_state(self.generator)
            with torch.cuda.graph(graph, stream=self.stream):
                self.work()
            self.graph = graph
        self.graph.replay()


@contextmanager
def on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """On a stream of one's own, where recording is possible; what was there before is finished first, and the other
    way round. None: nothing changes."""
    if stream is None:
        yield
        return
    usual = torch.cuda.current_stream(stream.device)
    stream.wait_stream(usual)
    with torch.cuda.stream(stream):
        yield
    usual.wait_stream(stream)
