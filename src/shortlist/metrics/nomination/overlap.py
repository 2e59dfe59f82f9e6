"""How much the lists of nominators hold the same items."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shortlist.errors import ConfigError
from shortlist.metrics.nomination.coverage import Floats


@dataclass(frozen=True, eq=False)
class Overlap:
    """Candidates of a pool by nominator, NaN for a nominator without any."""

    shared: Floats  # [N, N] share of the candidates of the row that the column nominates too
    jaccard: Floats  # [N, N] candidates of both over candidates of at least one
    unique: Floats  # [N] share of the candidates of the nominator that no other one nominates
    raw: int  # nominations
    distinct: int  # candidates


def overlap(nominated: ArrayLike) -> Overlap:
    """Overlap of nominations [C, N]: whether each nominator nominates each distinct candidate of each request."""
    given = np.asarray(nominated)
    if given.ndim != 2 or given.dtype != np.bool_:
        raise ConfigError(
            f"nominated: expected booleans of candidates by nominators [C, N], got {given.dtype} "
            f"of the shape {given.shape}"
        )
    member = given.astype(np.float64)
    both, sizes = member.T @ member, member.sum(0)
    alone = member[given.sum(1) == 1].sum(0)
    either = sizes[:, None] + sizes[None] - both
    return Overlap(
        _share(both, np.broadcast_to(sizes[:, None], both.shape)),
        _share(both, either),
        _share(alone, sizes),
        int(sizes.sum()),
        int(given.any(1).sum()),
    )


def _share(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0), np.float64)
