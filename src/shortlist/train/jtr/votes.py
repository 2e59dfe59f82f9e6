"""Which leaves the queries walk to that want an item: what overlapped clustering listens to."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from shortlist.data import Interactions
from shortlist.index.jtr import JTRIndex, reached
from shortlist.models.sequence.model import SequenceModel
from shortlist.train.models.sequence import pieces


@torch.no_grad()
def votes_of(
    encoder: SequenceModel, index: JTRIndex, events: Interactions, beam: int, batch_size: int = 128
) -> sparse.csr_matrix:
    """How many events of an item come after a history that walks to a leaf, float32 [N, leaves].

    The product of who wanted what (one row per event, its item) with who walks where (the `beam` leaves at the end).
    """
    leaves = index.tree.leaves.contiguous()
    shape = (events.n_items, len(leaves))
    counted = sparse.csr_matrix(shape, dtype=np.float32)
    for cut in batches_of(events, encoder.config.max_history + 1, batch_size, np.random.default_rng(0)):
        piece = cut.to(leaves.device)
        there = piece >= 0
        queries = encoder(piece[:, :-1])[there]  # [Q, D]
        walked = reached(index, queries, beam)  # [Q, W]
        wanted = piece[there][:, None].expand_as(walked)[walked >= 0]
        column = torch.searchsorted(leaves, walked[walked >= 0])
        at = (wanted.cpu().numpy(), column.cpu().numpy())
        counted = counted + sparse.csr_matrix((np.ones(len(at[0]), np.float32), at), shape=shape)
    return counted


def batches_of(
    events: Interactions, reach: int, batch_size: int, generator: np.random.Generator
) -> Iterator[Tensor]:
    """All events once, in shuffled pieces of sequences [B, reach], -1 = padding at the end."""
    starts, stops = pieces(events.lengths, reach, generator)
    order = generator.permutation(len(starts))
    items = torch.from_numpy(events.items.astype(np.int64))
    for first in range(0, len(order), batch_size):
        some = order[first : first + batch_size]
        at = torch.from_numpy(starts[some])[:, None] + torch.arange(int((stops - starts)[some].max()))
        inside = at < torch.from_numpy(stops[some])[:, None]
        yield torch.where(inside, items[torch.where(inside, at, 0)], -1)
