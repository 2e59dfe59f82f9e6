"""One thread for arithmetic: on few cores, BLAS threads inside a service cost more than they gain."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


def pin() -> None:
    """Make torch and BLAS use one thread in the calling thread; OpenMP keeps the number per thread."""
    torch.set_num_threads(1)
    threadpool_limits(limits=1)


@contextmanager
def pinned() -> Iterator[None]:
    """One thread for arithmetic inside the block; restored afterwards."""
    before = torch.get_num_threads()
    with threadpool_limits(limits=1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
