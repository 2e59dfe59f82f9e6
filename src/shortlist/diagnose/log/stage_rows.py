"""Which candidates of logged requests were inputs of a stage, and which stages have scores."""

import numpy as np
import torch
from torch import Tensor

from shortlist.feedback.record import Array, LoggedRequests


def usable(record: LoggedRequests) -> LoggedRequests:
    """The same requests with the candidates whose inclusion probability is known."""
    known = np.isfinite(record.incl_prob) & (record.incl_prob > 0)
    return record if known.all() else record.only(np.flatnonzero(known))


def stage_inputs(record: LoggedRequests, stage: int) -> Array:
    """Whether a candidate was an input of the stage that its order could keep or drop [C].

    A candidate that a filter of the stage removed was not ranked below others.
    """
    removed = record.filtered & (record.stage == stage - 1)
    inputs: Array = (record.stage >= stage - 1) & ~removed
    return inputs


def scoring_stages(record: LoggedRequests) -> tuple[int, ...]:
    """Numbers of the stages that computed scores."""
    return tuple((np.flatnonzero(np.isfinite(record.scores).any(0)) + 1).tolist())


def ordering_stages(record: LoggedRequests) -> tuple[int, ...]:
    """Numbers of the stages that computed scores, and of selectors, which have ranks only."""
    return tuple((np.flatnonzero((record.ranks > 0).any(0) | np.isfinite(record.scores).any(0)) + 1).tolist())


def dense(values: Array, record: LoggedRequests, fill: float) -> Tensor:
    """One value per candidate as rows of requests [R, n], filled up behind the last candidate."""
    wide = np.full((len(record), int(record.counts.max(initial=0))), fill, np.float64)
    wide[np.arange(wide.shape[1]) < record.counts[:, None]] = values
    return torch.from_numpy(wide)
