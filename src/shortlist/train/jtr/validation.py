"""How much of what held-out users met is found by the walk down the tree."""

from collections.abc import Callable

import numpy as np
import torch

from shortlist.data import HeldOut
from shortlist.data.membership import is_in
from shortlist.index.jtr import JTRIndex, search
from shortlist.models.model import VectorModel

CHUNK = 500  # cases asked at once


def judge_of(
    encoder: VectorModel, valid: HeldOut | None, seed: int, beam: int, k: int = 20, most: int = 1000
) -> Callable[[JTRIndex], float] | None:
    """A judge of trees for an encoder as it is when asked: recall@k on up to `most` cases, nothing seen named again.

    None without any case.
    """
    if valid is None or not len(valid):
        return None
    cases = valid.take(np.random.default_rng(seed).permutation(len(valid))[:most])
    device = encoder.vectors().device
    history = cases.query(width=max(int(cases.history_lengths().max()), 1)).history.to(device)
    truth = cases.relevant().to(device)
    count = (truth >= 0).sum(1).clamp(min=1)

    @torch.no_grad()
    def judge(index: JTRIndex) -> float:
        found = []
        for some in torch.split(history, CHUNK):
            found.append(search(index, encoder.vectors(), encoder.users(some), k, beam, some).items)
        return float((is_in(torch.cat(found), truth).sum(1) / count).mean())

    return judge
