"""The trainer of LightGCN: BPR on pairs."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from shortlist.data import Catalog, Interactions
from shortlist.models.collaborative.lightgcn import LightGCN
from shortlist.settings import setting
from shortlist.train.loop.device import device_of
from shortlist.train.loop.losses import bpr_loss, weighted_mean
from shortlist.train.models.pairs import Pairs, PairTrainer


@dataclass(frozen=True)
class LightGCNTrainer(PairTrainer):
    """Every event against one negative; `reg` regularises the embeddings of the batch before propagation.

    Weights multiply the losses of events; the edges of the graph have none.
    """

    uses_weights: ClassVar[bool | None] = True

    model: type[Any] = field(default=LightGCN, kw_only=True)
    reg: float = setting(1e-4, "L2 regularisation of the embeddings of a batch.", least=0, most=1000)
    user_embeddings: bool = setting(
        True, "Train an embedding per user; without it a user vector comes from the history alone."
    )

    def begin(self, events: Interactions, catalog: Catalog | None) -> LightGCN:
        model = LightGCN(self.config_for(events, n_users=events.n_users))
        model.graph = graph_of(events.matrix(), device_of(self.device))
        if not self.user_embeddings:
            torch.nn.init.zeros_(model.user_embedding.weight)
            model.user_embedding.weight.requires_grad_(False)
        return model

    def loss_of(
        self, model: LightGCN, users: Tensor, items: Tensor, pairs: Pairs, weights: Tensor | None = None
    ) -> Tensor:
        nodes = torch.stack(model.propagate()).mean(0)  # [n_users + N, D]
        sampled, valid = pairs.negatives(users, 1)
        n_users = model.config.n_users
        user, positive, negative = (
            F.embedding(at, nodes) for at in (users, n_users + items, n_users + sampled[:, 0])
        )
        losses = bpr_loss((user * positive).sum(1), (user * negative).sum(1)) * valid[:, 0]  # [B]
        embeddings = (model.user_embedding(users), model.items(items), model.items(sampled[:, 0]))
        penalty = torch.stack([vectors.square().sum(1).mean() for vectors in embeddings]).sum()
        return weighted_mean(losses, weights) + self.reg / 2 * penalty

    def finish(self, model: LightGCN, events: Interactions) -> None:
        device = model.item_vectors.device
        trained_users = torch.from_numpy(events.lengths > 0).to(device)
        degrees = torch.from_numpy(events.matrix().getnnz(axis=0)).to(device)
        model.finish(degrees, trained_users)


def graph_of(matrix: sparse.csr_matrix, device: torch.device) -> Tensor:
    """Users and items in one symmetric sparse matrix with edge weights 1 / sqrt(degree * degree)."""
    users, items = (1.0 / np.sqrt(np.maximum(matrix.getnnz(axis=axis), 1)) for axis in (1, 0))
    scaled = sparse.diags_array(users) @ matrix @ sparse.diags_array(items)
    both = sparse.block_array([[None, scaled], [scaled.T, None]], format="csr").astype(np.float32)
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (both.indptr, both.indices))
    shape = [int(side) for side in both.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # sparse CSR is in beta
        return torch.sparse_csr_tensor(starts, columns, torch.from_numpy(both.data), shape, device=device)
