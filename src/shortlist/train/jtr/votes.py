"""Votes of training events for leaves: the input of overlapped clustering."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import Interactions
from shortlist.index.jtr import JTRIndex, reached
from shortlist.models.sequence.model import SequenceModel
from shortlist.train.models.sequence import pieces
from shortlist.train.models.trainer import strengths_on


@torch.no_grad()
def leaf_votes(
    encoder: SequenceModel, index: JTRIndex, events: Interactions, beam: int, batch_size: int = 128
) -> sparse.csr_matrix:
    """How many events of an item follow a history whose beam search reaches a leaf, by weight, float32 [N, leaves].

    The product of the event-item matrix (one row per event) with the event-leaf matrix (the `beam` leaves reached).
    """
    leaves = index.tree.leaves.contiguous()
    shape = (events.n_items, len(leaves))
    votes = sparse.csr_matrix(shape, dtype=np.float32)
    for batch, weights in sequence_batches(
        events, encoder.config.max_history + 1, batch_size, np.random.default_rng(0)
    ):
        piece = batch.to(leaves.device)
        exists = piece >= 0
        queries = encoder(piece[:, :-1])[exists]  # [Q, D]
        found = reached(index, queries, beam)  # [Q, W]
        targets = piece[exists][:, None].expand_as(found)[found >= 0]
        own = torch.ones(piece.shape) if weights is None else weights  # [B, length]
        values = own[exists.cpu()][:, None].expand(found.shape)[found.cpu() >= 0]
        column = torch.searchsorted(leaves, found[found >= 0])
        at = (targets.cpu().numpy(), column.cpu().numpy())
        votes = votes + sparse.csr_matrix((values.numpy(), at), shape=shape)
    return votes


def sequence_batches(
    events: Interactions, length: int, batch_size: int, generator: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """All events once, in shuffled pieces of sequences [B, length], -1 = padding at the end.

    With their weights [B, length]; None where all are equal.
    """
    starts, stops = pieces(events.lengths, length, generator)
    order = generator.permutation(len(starts))
    items = torch.from_numpy(events.items.astype(np.int64))
    weights = strengths_on(events, torch.device("cpu"))
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        at = torch.from_numpy(starts[batch])[:, None] + torch.arange(int((stops - starts)[batch].max()))
        inside = at < torch.from_numpy(stops[batch])[:, None]
        at = torch.where(inside, at, 0)
        yield torch.where(inside, items[at], -1), None if weights is None else weights[at]
