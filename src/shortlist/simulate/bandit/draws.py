"""Random numbers of a seed that do not depend on which systems are simulated."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 1 << 20  # numbers of one seed that are drawn at a time, at most
LONGEST = 64  # rounds of a block, at most
COEFFICIENTS, CONTEXTS, NOISE, MASKS, TIES, POLICY, ROWS, SINGLE = range(8)  # what a stream is for


def generator(seed: int, purpose: int, *more: int) -> np.random.Generator:
    """The generator of a seed for one purpose; `more` tells apart streams of a purpose."""
    return np.random.default_rng([seed, purpose, *more])


class Normals:
    """Standard normals, a block of rounds of each seed at a time.

    On a processor the numbers of a seed are the same with any threads, any size of blocks and any other seeds beside
    it; on a GPU they come from the GPU's own generators and differ from those.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        purpose: int,
        shape: tuple[int, ...],
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        rounds = max(1, min(LONGEST, BLOCK // max(1, int(np.prod(shape)))))
        self._block = torch.empty((len(seeds), rounds, *shape), dtype=dtype, device=device)
        self._used = rounds
        self._draws = [generator(seed, purpose, *shape) for seed in seeds]
        self._device = torch.device(device)
        self._on_device = [
            torch.Generator(self._device).manual_seed(int(draw.integers(2**62)))
            for draw in (self._draws if self._device.type != "cpu" else [])
        ]

    def next(self, most: int, exactly: bool = False) -> Tensor:
        """The numbers of the next rounds [S, R, ...], at most so many; valid until the next call."""
        if self._used == self._block.shape[1]:
            self._fill()
            self._used = 0
        found = self._block[:, self._used : self._used + most]
        self._used += found.shape[1]
        if exactly and found.shape[1] < most:
            first = found.clone()
            return torch.cat([first, self.next(most - found.shape[1], exactly=True)], dim=1)
        return found

    def _fill(self) -> None:
        if self._on_device:
            for row, draw in zip(self._block, self._on_device, strict=True):
                row.normal_(generator=draw)
            return
        workers = max(1, min(len(self._draws), torch.get_num_threads()))
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(_drawn, self._draws, self._block.numpy()))


def _drawn(draw: np.random.Generator, block: NDArray[np.floating]) -> None:
    draw.standard_normal(out=block, dtype=block.dtype)


def nested_masks(
    seeds: Sequence[int], n_nominators: int, width: int, purpose: int = MASKS
) -> NDArray[np.int64]:
    """The place of each feature in a random order [S, N, D]; a subset of size s has the places below s.

    Subsets of one nominator are nested, and its order does not depend on how many others there are.
    """
    orders = [
        [generator(seed, purpose, row, width).permutation(width) for row in range(n_nominators)]
        for seed in seeds
    ]
    return np.array(orders, dtype=np.int64)
