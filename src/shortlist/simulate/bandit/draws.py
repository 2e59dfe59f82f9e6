"""Random numbers of a seed that do not depend on which systems are simulated."""

import os
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

    On a processor the numbers of a seed are the same with any threads and any other seeds beside it; on a GPU they
    come from the GPU's own generators and differ from those.
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
        self._block = torch.empty((rounds, len(seeds), *shape), dtype=dtype, device=device)
        self._used = rounds
        self._draws = [generator(seed, purpose, *shape) for seed in seeds]
        self._device = torch.device(device)
        self._on_device = [
            torch.Generator(self._device).manual_seed(int(draw.integers(2**62)))
            for draw in (self._draws if self._device.type != "cpu" else [])
        ]

    def next(self) -> Tensor:
        """The numbers of the next round [S, ...], valid until the block is used up."""
        if self._used == len(self._block):
            self._fill()
            self._used = 0
        self._used += 1
        return self._block[self._used - 1]

    def _fill(self) -> None:
        if self._on_device:
            for row, draw in enumerate(self._on_device):
                self._block[:, row] = torch.randn(
                    self._block[:, row].shape, generator=draw, dtype=self._block.dtype, device=self._device
                )
            return
        with ThreadPoolExecutor(max(1, min(len(self._draws), os.cpu_count() or 1))) as workers:
            for row, drawn in enumerate(workers.map(self._drawn, self._draws)):
                self._block[:, row] = torch.from_numpy(drawn)

    def _drawn(self, draw: np.random.Generator) -> NDArray[np.floating]:
        shape = (len(self._block), *self._block.shape[2:])
        if self._block.dtype == torch.float32:
            return draw.standard_normal(shape, dtype=np.float32)
        return draw.standard_normal(shape)


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
