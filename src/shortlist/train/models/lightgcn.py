"""LightGCN, taught to prefer what users met to what they did not."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Interactions
from shortlist.models.collaborative.lightgcn import LightGCN, LightGCNConfig
from shortlist.train.loop.losses import bpr_loss
from shortlist.train.models.pairs import Pairs, PairTrainer


@dataclass(frozen=True)
class LightGCNTrainer(PairTrainer):
    """Pairs against one unmet item each; `reg` holds the vectors before the first hop small, of the batch alone.

    With `own`, users have vectors of their own; without, a user is what the history says, and newcomers are no worse
    off than those who were there.
    """

    title: ClassVar[str] = "lightgcn"

    learning_rate: float = 2e-3
    weight_decay: float = 0.0
    layers: int = 3
    reg: float = 1e-4
    own: bool = True

    def begin(self, events: Interactions, device: torch.device) -> LightGCN:
        config = LightGCNConfig(events.n_items, n_users=events.n_users, width=self.width, layers=self.layers)
        model = LightGCN(config).to(device)
        model.graph = graph_of(events.matrix(), device)
        if not self.own:
            torch.nn.init.zeros_(model.people.weight)
            model.people.weight.requires_grad_(False)
        return model

    def loss_of(self, model: LightGCN, users: Tensor, items: Tensor, pairs: Pairs) -> Tensor:
        everything = torch.stack(model.spread()).mean(0)  # [n_users + N, D]
        drawn, unmet = pairs.unmet(users, 1)
        n_users = model.config.n_users
        people, own, other = (
            F.embedding(at, everything) for at in (users, n_users + items, n_users + drawn[:, 0])
        )
        loss = (bpr_loss((people * own).sum(1), (people * other).sum(1)) * unmet[:, 0]).mean()
        first = (model.people(users), model.items(items), model.items(drawn[:, 0]))
        return loss + self.reg / 2 * torch.stack([one.square().sum(1).mean() for one in first]).sum()

    def settle(self, model: LightGCN, events: Interactions) -> None:
        device = model.shown.device
        met = torch.from_numpy(events.lengths > 0).to(device)
        degrees = torch.from_numpy(events.matrix().getnnz(axis=0)).to(device)
        model.settle(degrees, met)


def graph_of(met: sparse.csr_matrix, device: torch.device) -> Tensor:
    """Users and items in one symmetric sparse matrix, an edge weighing 1 / sqrt(degree * degree)."""
    people, items = (1.0 / np.sqrt(np.maximum(met.getnnz(axis=axis), 1)) for axis in (1, 0))
    scaled = sparse.diags_array(people) @ met @ sparse.diags_array(items)
    both = sparse.block_array([[None, scaled], [scaled.T, None]], format="csr").astype(np.float32)
    starts, places = (torch.from_numpy(one.astype(np.int64)) for one in (both.indptr, both.indices))
    shape = [int(side) for side in both.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that rows of sparse matrices are young in torch
        return torch.sparse_csr_tensor(starts, places, torch.from_numpy(both.data), shape, device=device)
