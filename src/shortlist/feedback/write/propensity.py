"""Probabilities of random nominators and slates, from the columns of a trace."""

import torch
from torch import Tensor

from shortlist.data.candidates import first_positions
from shortlist.pipeline.trace import Trace

PROPENSITY = "propensity"  # column of a random nominator, or of a sampled slate


def pool_propensity(trace: Trace) -> Tensor:
    """The probability that one of the nominators of a candidate returns it: 1 - prod of 1 - p [B, K0].

    p is the column `propensity` of a nominator, 1 if it has none. NaN where no nominator of a candidate has it.
    """
    parts = [part.nominated for part in trace.steps[0].parts]
    unknown = torch.full_like(trace.nominated.scores, torch.nan)
    if not any(PROPENSITY in part.columns for part in parts):
        return unknown
    items, valid = (torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("items", "valid"))
    own = [part.columns.get(PROPENSITY, torch.full_like(part.scores, torch.nan)) for part in parts]
    chance = torch.cat(own, dim=1).masked_fill(~valid, torch.nan)  # [B, K0]
    first, _ = first_positions(items, valid)
    missed = torch.where(valid, 1 - chance.nan_to_num(1.0), 1.0)
    together = torch.ones_like(missed).scatter_reduce(1, first, missed, "prod")
    random = torch.zeros_like(missed).scatter_reduce(1, first, (~chance.isnan()).to(missed), "amax") > 0
    return torch.where(random, 1 - together, unknown)


def nominator_propensity(trace: Trace) -> list[Tensor]:
    """The probability with which each nominator returns a candidate, NaN where it is not random [B, K0] each."""
    parts = [part.nominated for part in trace.steps[0].parts]
    unknown = torch.full_like(trace.nominated.scores, torch.nan)
    if not any(PROPENSITY in part.columns for part in parts):
        return [unknown] * len(parts)
    items, valid = (torch.cat([getattr(part, name) for part in parts], dim=1) for name in ("items", "valid"))
    # Empty places write into an extra column, which is dropped.
    first = first_positions(items, valid)[0].masked_fill(~valid, items.shape[1])
    found, wide = [], torch.nn.functional.pad(unknown, (0, 1), value=torch.nan)
    for part, at in zip(parts, torch.split(first, [part.shape[1] for part in parts], dim=1), strict=True):
        own = part.columns.get(PROPENSITY)
        found.append(unknown if own is None else wide.scatter(1, at, own.to(wide))[:, :-1])
    return found


def slate_propensity(trace: Trace) -> Tensor:
    """The probability with which a stage drew a served candidate [B, K0], NaN where none draws."""
    slate = trace.steps[-1].after
    count, width = trace.nominated.shape
    wide = torch.full((count, width + 1), torch.nan, device=slate.scores.device)
    if PROPENSITY in slate.columns:
        # Empty places write into an extra column, which is dropped.
        at = slate.slot.masked_fill(~slate.valid, width)
        wide = wide.scatter(1, at, slate.columns[PROPENSITY].to(wide.dtype))
    return wide[:, :-1]
