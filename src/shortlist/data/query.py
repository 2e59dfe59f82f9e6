"""A batch of requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Query:
    """B requests as rows; -1 is an unknown user or padding. Histories are padded on the left."""

    user: Tensor  # [B] row of the user
    history: Tensor  # [B, H] item rows, oldest first
    time: Tensor  # [B] time of the request, on the clock of the log
    seed: Tensor  # [B] random seed of each request
    context: Mapping[str, Tensor] = field(default_factory=dict)  # further inputs, each [B, ...]

    @classmethod
    def of(
        cls,
        histories: Sequence[Sequence[int]],
        users: Sequence[int] | None = None,
        times: Sequence[int] | None = None,
        seeds: Sequence[int] | None = None,
        width: int | None = None,
    ) -> "Query":
        """A batch from plain lists; `width` keeps only the last items of each history."""
        count = len(histories)
        longest = max((len(history) for history in histories), default=0)
        width = max(longest, 1) if width is None else width
        last = [list(history)[max(len(history) - width, 0) :] for history in histories]
        rows = [[-1] * (width - len(history)) + history for history in last]
        return cls(
            torch.tensor(users if users is not None else [-1] * count, dtype=torch.int64),
            torch.tensor(rows, dtype=torch.int64).reshape(count, width),
            torch.tensor(times if times is not None else [0] * count, dtype=torch.int64),
            torch.tensor(seeds if seeds is not None else range(count), dtype=torch.int64),
        )

    def __len__(self) -> int:
        return self.user.shape[0]

    def take(self, rows: Tensor | slice) -> "Query":
        """A subset of the requests."""
        context = {name: value[rows] for name, value in self.context.items()}
        return Query(self.user[rows], self.history[rows], self.time[rows], self.seed[rows], context)

    def to(self, device: torch.device | str) -> "Query":
        """The same requests on another device."""
        context = {name: value.to(device) for name, value in self.context.items()}
        return Query(
            self.user.to(device), self.history.to(device), self.time.to(device), self.seed.to(device), context
        )
