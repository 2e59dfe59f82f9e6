"""CUDA graphs: work that is recorded once and replayed, because launching hundreds of small kernels takes longer than
running them."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

WARMUP = 3  # eager runs before recording, in which kernels are compiled and constants are created


class Recorded:
    """Repeats the same work on tensors that keep their addresses.

    Inputs that change between two calls must be written into those tensors, or into the seed of the generator. The work
    must not synchronise with the device. It is called under `on(stream)`.
    """

    def __init__(
        self,
        work: Callable[[], None],
        stream: torch.cuda.Stream,
        generator: torch.Generator | None = None,
    ) -> None:
        self.work, self.stream, self.generator = work, stream, generator
        self.runs = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run the work once more."""
        self.runs += 1
        if self.runs <= WARMUP:
            self.work()
            return
        if self.graph is None:
            release_memory()  # a graph has memory of its own: that of the eager runs is not needed beside it
            graph = torch.cuda.CUDAGraph()
            if self.generator is not None:
                graph.register_generator_state(self.generator)
            with no_collection(), torch.cuda.graph(graph, stream=self.stream):
                self.work()
            self.graph = graph
        self.graph.replay()


def release_memory() -> None:
    """Return memory that nothing uses to the GPU; a process keeps it otherwise."""
    gc.collect()
    torch.cuda.empty_cache()


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect garbage now and not inside: an earlier graph that is freed while another one is recorded spoils it."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def stream_for(device: torch.device) -> torch.cuda.Stream | None:
    """The CUDA stream for recording; None on a CPU.

    One for all trainings: the libraries of a GPU keep memory for every stream that they have seen.
    """
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


@contextmanager
def on(stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Run on another stream, after the work queued before and before the work queued later; None changes nothing."""
    if stream is None:
        yield
        return
    current = torch.cuda.current_stream(stream.device)
    stream.wait_stream(current)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        current.wait_stream(stream)
