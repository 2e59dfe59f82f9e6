"""What is measured of every round, with the true utilities of the world."""

from collections.abc import Mapping

import torch
from torch import Tensor

from shortlist.data import Candidates
from shortlist.metrics.coverage import coverage, gini
from shortlist.metrics.funnel.cascade import top_mask
from shortlist.metrics.funnel.consistency import share_kept
from shortlist.simulate.full_stage.closed_loop.serve import STAGE_NAMES, Served
from shortlist.simulate.full_stage.closed_loop.settings import LoopSettings
from shortlist.simulate.full_stage.closed_loop.world import LoopWorld

UTILITY = "utility"
YIELD, SHARE = "reveal yield", "reveal share"
COVERAGE, GINI, NOVELTY, LIKED = "coverage", "gini", "novelty", "liked"
LOST = {stage: f"lost in {name}" for stage, name in enumerate(STAGE_NAMES, start=1)}
CONSISTENCY = {2: "consistency with pre-rank", 3: "consistency with rank"}


def measured(
    world: LoopWorld, settings: LoopSettings, served: Served, before: Tensor | None
) -> dict[str, float]:
    """Means over requests; `before` [U, I] says what was retrieved for a user in the round before."""
    relevance = world.utility[served.users]
    figures = {UTILITY: float(relevance.gather(1, served.shown).sum(1).mean())}
    figures |= lost_utility(world, settings, served)
    figures |= {name: _consistency(served, stage, settings) for stage, name in CONSISTENCY.items()}
    figures |= _reveal(served)
    shown, slots = served.shown.cpu(), settings.capacities[-1]
    figures |= {
        COVERAGE: coverage(shown, world.n_items, slots),
        GINI: gini(shown, world.n_items, slots),
    }
    if before is not None:
        figures[NOVELTY] = float((~before[served.users].gather(1, served.shown)).double().mean())
    return figures


def lost_utility(world: LoopWorld, settings: LoopSettings, served: Served) -> Mapping[str, float]:
    """The best utility of the final slots that each stage gives away: adds up to the best minus the utility."""
    relevance, slots = world.utility[served.users].double(), settings.capacities[-1]
    best = [relevance.topk(slots, dim=1).values.sum(1)]
    best += [_best(relevance, served.kept(stage), slots) for stage in LOST]
    return {name: float((best[stage - 1] - best[stage]).mean()) for stage, name in LOST.items()}


def retrieved(world: LoopWorld, served: Served) -> Tensor:
    """What was retrieved for each user in a round [U, I]."""
    found = served.kept(1)
    grid = torch.zeros((world.n_users, world.n_items), dtype=torch.bool, device=world.device)
    grid[served.users[:, None].expand_as(found.items)[found.valid], found.items[found.valid]] = True
    return grid


def _best(relevance: Tensor, kept: Candidates, slots: int) -> Tensor:
    values = relevance.gather(1, kept.items.clamp(min=0)).masked_fill(~kept.valid, 0.0)
    return values.topk(min(slots, values.shape[1]), dim=1).values.sum(1)


def _consistency(served: Served, stage: int, settings: LoopSettings) -> float:
    """The share of the best candidates of retrieval that are also among the best of a later stage."""
    found, cap = served.kept(1), settings.capacities[1]
    later = served.scores[stage][served.users].gather(1, found.items.clamp(min=0))
    first, second = (top_mask(scores, cap, found.valid) for scores in (found.scores, later))
    return float(share_kept(first, second, found.valid.double()).mean())


def _reveal(served: Served) -> dict[str, float]:
    """Of the trained channel: shown items over returned ones, and over all shown ones."""
    column = served.trace.nominated.columns[f"{served.trace.steps[0].parts[0].name}.rank"]
    returned = ~column.isnan()
    last = served.trace.steps[-1].after
    shown = int(returned.gather(1, last.slot)[last.valid].sum())
    return {YIELD: shown / max(int(returned.sum()), 1), SHARE: shown / max(int(last.valid.sum()), 1)}
