"""How much utility PRP can lose against GPRP: the supremum, and funnels that come close to it."""

from dataclasses import dataclass

import numpy as np

from shortlist.errors import ConfigError
from shortlist.metrics.funnel.downstream import Floats, ScoreStages


@dataclass(frozen=True, eq=False)
class GapCase:
    """A funnel where PRP keeps items that a later stage prefers and users do not."""

    relevance: Floats  # [c_i + c_T]
    downstream: ScoreStages


def sup_gap(c_before: int, c_stage: int, c_final: int, fixed_scores: bool = True) -> int:
    """Supremum of GPRP - PRP for relevance in [0, 1]: `c_before` items, `c_stage` are kept, `c_final` are shown.

    It is min(c_T, c_i - c_T, c_before - c_i) where later stages rank by fixed scores. Stages that may depend on the set
    reach min(c_T, c_i - c_T) as soon as one item is dropped.
    """
    if not 1 <= c_final <= c_stage <= c_before:
        raise ConfigError(
            f"sup gap: expected 1 <= final <= stage <= before, got {c_final}, {c_stage} and {c_before}; "
            "give the capacities in funnel order"
        )
    dropped = c_before - c_stage
    return min(c_final, c_stage - c_final, dropped if fixed_scores or not dropped else c_final)


def gap_case(c_stage: int, c_final: int, eps: float) -> GapCase:
    """c_i - c_T items (r = 1, middle score), c_T items (r = eps, top score), c_T items (r = 0, bottom score)."""
    sizes = [c_stage - c_final, c_final, c_final]
    relevance = np.repeat([1.0, eps, 0.0], sizes)
    return GapCase(relevance, ScoreStages(np.repeat([1.0, 2.0, 0.0], sizes)[None], (c_final,)))
