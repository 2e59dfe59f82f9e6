"""Train the stage models on exposed cells."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.errors import DataError
from shortlist.metrics.two_samples import auc
from shortlist.progress import Progress, silent
from shortlist.simulate.full_stage.cell_noise import Floats, Rows
from shortlist.simulate.full_stage.pools import Score, cell_values, exposed_pools
from shortlist.simulate.full_stage.short_video import ShortVideoWorld
from shortlist.simulate.full_stage.stage_models import (
    RankNetwork,
    RankScore,
    StageModelConfig,
    TwoTower,
    TwoTowerScore,
)
from shortlist.simulate.full_stage.video_features import item_features, user_features
from shortlist.train.loop.device import device_of
from shortlist.train.loop.loop import Batches, Loop, shuffled


@dataclass(frozen=True, eq=False)
class LabelledCells:
    """Cells with their labels [N]."""

    users: Rows
    items: Rows
    labels: NDArray[np.bool_]

    def take(self, rows: Rows) -> "LabelledCells":
        """Some of the cells."""
        return LabelledCells(self.users[rows], self.items[rows], self.labels[rows])

    def __len__(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class StageModels:
    """Both scores, and their AUC on exposed cells that were held out of training."""

    prerank: TwoTowerScore
    rank: RankScore
    prerank_auc: float
    rank_auc: float
    cells: int  # trained on


def exposed_cells(world: ShortVideoWorld, users: Rows, most: int = 0, seed: int = 0) -> LabelledCells:
    """The cells of the big matrix with their labels, or a random sample of `most` of them."""
    pools = exposed_pools(world, users, small=False)
    rows = np.arange(len(pools.item))
    if most and len(rows) > most:
        rows = np.sort(np.random.default_rng([seed, 21]).permutation(len(rows))[:most])
    return labelled(world.labels, pools.users[rows], pools.item[rows])


def labelled(labels: Score, users: Rows, items: Rows) -> LabelledCells:
    """Cells [N] with their labels, from the `labels` of a world."""
    return LabelledCells(users, items, cell_values(labels, users, items).astype(bool))


def train_stage_models(
    world: ShortVideoWorld,
    config: StageModelConfig | None = None,
    seed: int = 0,
    progress: Progress = silent,
    device: str = "auto",
) -> StageModels:
    """Both models of World A, trained on exposed cells of the big matrix."""
    config = config or StageModelConfig()
    cells = exposed_cells(world, np.arange(world.n_users), config.max_cells, seed)
    return fit_stage_models(cells, user_features(world), item_features(world), config, seed, progress, device)


def fit_stage_models(
    cells: LabelledCells,
    users: Floats,
    items: Floats,
    config: StageModelConfig | None = None,
    seed: int = 0,
    progress: Progress = silent,
    device: str = "auto",
) -> StageModels:
    """Both models from cells and features of users [U, F] and items [I, G], which may have no columns.

    They are trained with binary cross-entropy; the seed decides weights, held-out cells and order.
    """
    config, to = config or StageModelConfig(), device_of(device)
    train, test = _held_out(cells, config, seed)
    left, right = (torch.from_numpy(one).to(to) for one in (users, items))
    torch.manual_seed(seed)
    towers = TwoTower(left, right, config.width, config.prerank_layers).to(to)
    network = RankNetwork(left, right, config.width, config.rank_layers).to(to)
    for model, task in ((towers, "pre-rank model"), (network, "rank model")):
        _fit(model, train, config, seed, task, progress)
    prerank, rank = TwoTowerScore.of(towers), RankScore.of(network)
    return StageModels(prerank, rank, _auc(prerank, test), _auc(rank, test), len(train))


def _auc(score: Score, cells: LabelledCells) -> float:
    return auc(cell_values(score, cells.users, cells.items).astype(np.float64), cells.labels)


def _held_out(
    cells: LabelledCells, config: StageModelConfig, seed: int
) -> tuple[LabelledCells, LabelledCells]:
    order = np.random.default_rng([seed, 22]).permutation(len(cells))
    count = round(config.held_out * len(cells))
    train, test = cells.take(order[count:]), cells.take(order[:count])
    if not (0 < test.labels.sum() < len(test)):
        raise DataError(
            "stage models: expected held-out cells with both labels, "
            f"got {int(test.labels.sum())} positives of {len(test)}; take a larger world or a larger held_out"
        )
    return train, test


def _fit(
    model: nn.Module, cells: LabelledCells, config: StageModelConfig, seed: int, task: str, progress: Progress
) -> None:
    loop = Loop(config.epochs, config.learning_rate, weight_decay=0.0, patience=0)
    steps = -(-len(cells) // config.batch_size)
    loop.run(model, _batches(model, cells, config.batch_size, seed), steps, task, progress)


def _batches(model: nn.Module, cells: LabelledCells, batch_size: int, seed: int) -> Batches:
    device = next(model.parameters()).device
    users, items = (torch.from_numpy(one).to(device) for one in (cells.users, cells.items))
    labels = torch.from_numpy(cells.labels).to(device, torch.float32)

    def loss(rows: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(users[rows], items[rows]), labels[rows])

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        for rows in shuffled(len(cells), batch_size, np.random.default_rng([seed, epoch, 23])):
            yield partial(loss, torch.from_numpy(rows).to(device))

    return batches
