"""A bandit from rows with labels: which rewards an arm has in a round, and what is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from shortlist.errors import ConfigError, did_you_mean
from shortlist.simulate.bandit.draws import ROWS, generator
from shortlist.simulate.bandit.worlds import Rounds
from shortlist.simulate.labels.table import LabelTable

TARGET, ARM_IS_LABEL, DISJOINT = "target", "arm_is_label", "disjoint"
CONVERSIONS = (TARGET, ARM_IS_LABEL, DISJOINT)
AHEAD = 64  # rounds drawn at a time
LARGEST = 1 << 20  # numbers of the contexts of one seed that are made at a time, at most


@dataclass(frozen=True, eq=False)
class LabelBandit:
    """Arms with reward 1 or 0 from a table of labels, each round with rows of its own.

    `target`: a target label is sampled by its frequency; every arm is another row, with its features times the label's
    prototype, and has reward 1 if it has the label. `arm_is_label`: every arm is another row, and has reward 1 if it
    has the label of that arm; more arms than labels repeat them. `disjoint`: every arm is a label of the same row,
    whose features all arms share, so that a policy needs coefficients for each arm: see `simulate_disjoint`. Expected
    rewards are unknown and are the rewards themselves.
    """

    table: LabelTable
    conversion: str = TARGET
    arms: int = 100
    prototypes: Tensor | None = None  # [L, D] of a training table; without them those of the table

    def __post_init__(self) -> None:
        if self.conversion not in CONVERSIONS:
            raise ConfigError(
                f"label bandit: expected the conversion {', '.join(CONVERSIONS)}, got {self.conversion!r}"
                f"{did_you_mean(self.conversion, CONVERSIONS)}"
            )
        if self.arms < 1:
            raise ConfigError(f"label bandit: expected at least one arm, got {self.arms}")
        if self.prototypes is not None and self.prototypes.shape != (self.table.n_labels, self.width):
            raise ConfigError(
                f"label bandit: expected prototypes of {self.table.n_labels} labels and width {self.width}, "
                f"got {tuple(self.prototypes.shape)}"
            )
        if not bool(self.table.labels.any()):
            raise ConfigError("label bandit: expected a table with at least one true label, got none")

    @property
    def width(self) -> int:
        return self.table.width

    def rounds(
        self, seeds: Sequence[int], dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> "LabelRounds":
        return LabelRounds(self, seeds, dtype, device)


class LabelRounds:
    """Rounds of a label bandit; those of a seed do not depend on other seeds."""

    def __init__(
        self, bandit: LabelBandit, seeds: Sequence[int], dtype: torch.dtype, device: torch.device | str
    ) -> None:
        table = bandit.table
        self._bandit, self._device = bandit, torch.device(device)
        self._features = table.features.to(device, dtype)
        self._labels = table.labels.to(device)
        self._label_of_arm = torch.arange(bandit.arms, device=device) % table.n_labels
        prototypes = table.prototypes if bandit.prototypes is None else bandit.prototypes
        self._prototypes = prototypes.to(device, dtype)
        self._cumulative = np.cumsum((table.popularity / table.popularity.sum()).numpy())
        self._draws = [generator(seed, ROWS, bandit.arms) for seed in seeds]
        self._next = AHEAD
        self._rows = self._targets = torch.empty(0)

    def next(self, most: int) -> Rounds:
        if self._next == AHEAD:
            self._fill()
        cell = self._bandit.width * (1 if self._bandit.conversion == DISJOINT else self._bandit.arms)
        stop = min(self._next + min(most, max(1, LARGEST // cell)), AHEAD)
        rows, targets = self._rows[:, self._next : stop], self._targets[:, self._next : stop]
        self._next = stop  # rows [S, R, A], targets [S, R]
        if self._bandit.conversion == DISJOINT:
            return self._shared(rows[..., 0])
        contexts = self._features[rows]  # [S, R, A, D]
        if self._bandit.conversion == ARM_IS_LABEL:
            return self._rounds(contexts, self._labels[rows, self._label_of_arm])
        targets = targets[..., None]
        return self._rounds(contexts * self._prototypes[targets], self._labels[rows, targets])

    def _shared(self, rows: Tensor) -> Rounds:
        contexts = self._features[rows][:, :, None].expand(-1, -1, self._bandit.arms, -1)
        return self._rounds(contexts, self._labels[rows][..., self._label_of_arm])

    def _rounds(self, contexts: Tensor, hits: Tensor) -> Rounds:
        rewards = hits.to(contexts)
        return Rounds(contexts, rewards, rewards)

    def _fill(self) -> None:
        """The rows and the target labels of the next rounds."""
        self._next = 0
        shape, n_labels = (AHEAD, self._bandit.arms), len(self._cumulative)
        rows = [draw.integers(len(self._features), size=shape) for draw in self._draws]
        chances = np.stack([draw.random(AHEAD) for draw in self._draws])
        targets = np.searchsorted(self._cumulative, chances, side="right").clip(max=n_labels - 1)
        self._rows = torch.from_numpy(np.stack(rows)).to(self._device)  # [S, AHEAD, A]
        self._targets = torch.from_numpy(targets).to(self._device)  # [S, AHEAD]
