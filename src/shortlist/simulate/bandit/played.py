"""What systems did."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Played:
    """Shown arms and the best candidates of a block of rounds [S, R, Q]."""

    action: Tensor
    best_candidate: Tensor
