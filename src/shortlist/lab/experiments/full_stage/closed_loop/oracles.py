"""Retrieval with true utilities: PRP, the paper's p r (equation 7), and p (r - price)."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from shortlist.lab.experiments.full_stage.closed_loop.slot_price import best_priced
from shortlist.simulate.full_stage.closed_loop import LoopState, serve_users
from shortlist.train.objectives.stage_log import StageLog


def oracle_prp(log: StageLog, state: LoopState) -> Tensor:
    """The true utilities."""
    return state.world.utility


def oracle_gprp7(log: StageLog, state: LoopState, passes: int) -> Tensor | None:
    """p r with the probability p to be shown among random candidates."""
    if not _is_new(state):
        return None
    return _inclusion(state, passes) * state.world.utility


def oracle_slot_price(log: StageLog, state: LoopState, passes: int) -> Tensor | None:
    """p (r - price) with the price, for each user, of the highest true utility; PRP is one of the choices."""
    if not _is_new(state):
        return None
    inclusion, relevance = _inclusion(state, passes), state.world.utility
    return best_priced(inclusion, relevance, partial(funnel_utility, state), state.settings.capacities[-1])


def funnel_utility(state: LoopState, scores: Tensor) -> Tensor:
    """The utility of the shown items of every user with these scores of retrieval, beside all other channels [U]."""
    world, stages = state.world, {**state.scores, 1: scores}
    users = torch.arange(world.n_users, device=world.device)
    shown = serve_users(world, state.settings, stages, state.number, users).shown
    return world.utility.gather(1, shown).sum(1)


def passed(scores: Mapping[int, Tensor], capacities: tuple[int, ...], items: Tensor) -> Tensor:
    """The items of candidates [U, c] that all stages after retrieval keep [U, c_T]."""
    for stage, capacity in enumerate(capacities[1:], start=2):
        count = min(capacity, items.shape[1])
        items = items.gather(1, scores[stage].gather(1, items).topk(count, dim=1).indices)
    return items


def _inclusion(state: LoopState, passes: int) -> Tensor:
    """P(shown | retrieved) of every cell [U, I] among uniform random candidates.

    Every pass splits the catalogue of each user into random sets of the capacity of retrieval; the rest of a split,
    smaller than a set, counts for no item. One pass at the base rate is added, so that no probability is 0.
    """
    world, capacities = state.world, state.settings.capacities
    returned, slots = min(capacities[0], world.n_items), capacities[-1]
    generator = torch.Generator().manual_seed(world.seed * 7 + 11)
    shown = torch.full_like(world.utility, slots / returned)
    tried = torch.ones_like(world.utility)
    for _ in range(passes):
        drawn = torch.rand(world.utility.shape, generator=generator).to(world.device)
        order = drawn.argsort(dim=1)
        for start in range(0, world.n_items - returned + 1, returned):
            items = order[:, start : start + returned]
            kept = passed(state.scores, capacities, items)
            tried.scatter_add_(1, items, torch.ones_like(items, dtype=tried.dtype))
            shown.scatter_add_(1, kept, torch.ones_like(kept, dtype=shown.dtype))
    return shown / tried


def _is_new(state: LoopState) -> bool:
    """Whether the later stages are not those of the round before."""
    settings = state.settings
    return state.number == 0 or (settings.drifted(state.number) and state.number == settings.drift_round)
