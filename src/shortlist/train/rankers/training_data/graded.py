"""Graded labels of a ranker's lists, from what a full-stage log says about their candidates."""

import torch
from torch import Tensor

from shortlist.train.context import RequestBatch
from shortlist.train.objectives.cuts import LoggedCuts
from shortlist.train.objectives.full_stage import MAX_WEIGHT, FullStageSettings
from shortlist.train.objectives.relabel import Ladder
from shortlist.train.rankers.training_data.listed import placed, places


def reaching(one: RequestBatch, settings: FullStageSettings) -> RequestBatch:
    """Logged requests with the candidates that the stage is trained on; other requests as they are."""
    if one.logged is None:
        return one
    lowest = settings.first_stage(one.logged.passed + 1, one.logged.n_stages)
    return one.with_found(one.logged.from_stage(one.found, lowest))


def ladder_of(one: RequestBatch, settings: FullStageSettings) -> Ladder:
    """The labels in use for logged requests."""
    assert one.logged is not None
    return settings.labels(one.logged.passed + 1, one.logged.n_stages)


def list_grades(
    one: RequestBatch, rows: Tensor, items: Tensor, is_target: Tensor, settings: FullStageSettings
) -> tuple[Tensor | None, Tensor | None]:
    """Labels and weights of items [I, M] of requests `rows` [I]; None of requests without a full-stage log.

    An item that the log does not hold, such as a random one of the catalogue, has the lowest label and weight 1.
    """
    if one.logged is None:
        return None, None
    ladder = ladder_of(one, settings)
    at, hit = places(one.found, rows, items)
    known = placed(one.logged.labels(one.found, ladder), rows, at, hit, torch.zeros(()))
    labels = torch.where(is_target, ladder[-1], known)
    if not settings.ht_weight or one.logged.inclusion is None:
        return labels, None
    inclusion = placed(one.logged.of(one.logged.inclusion, one.found), rows, at, hit, torch.ones(()))
    return labels, (1.0 / inclusion).clamp(max=MAX_WEIGHT)


def list_cuts(
    one: RequestBatch, rows: Tensor, items: Tensor, settings: FullStageSettings
) -> LoggedCuts | None:
    """What the log says about the cuts of this stage and the next one for items [I, M] of requests `rows` [I].

    None of requests without a full-stage log, and for objectives that do not read it.
    """
    log = one.logged
    if log is None or not settings.reads_cuts:
        return None
    at, hit = places(one.found, rows, items)
    reached = placed(log.of(log.stage, one.found), rows, at, hit, torch.zeros((), dtype=torch.int64))
    kept, following = reached >= log.passed + 1, log.next_stage
    if following is None:
        settings.check_next(log.passed + 1, log.n_stages)
        return LoggedCuts(kept)
    scores = placed(log.of(log.scores[following], one.found), rows, at, hit, torch.tensor(torch.nan))
    return LoggedCuts(kept, reached >= following, scores)


def stage_negatives(
    one: RequestBatch, rows: Tensor, settings: FullStageSettings, generator: torch.Generator
) -> Tensor:
    """Random logged negatives of each stratum, without repeats [I, M]; -1 where a stratum has too few."""
    assert one.logged is not None
    strata = one.logged.strata(one.found).masked_fill(~one.found.valid, -1)[rows]  # [I, K]
    counts = settings.counts(one.logged.passed + 1, one.logged.n_stages)
    found = [drawn(one, rows, strata == stage, count, generator) for stage, count in counts.items()]
    return torch.cat(found, dim=1)


def drawn(one: RequestBatch, rows: Tensor, allowed: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random candidates of those allowed [I, K], without repeats [I, count], -1 where there are too few."""
    priority = torch.rand(allowed.shape, generator=generator).masked_fill(~allowed, -1.0)
    best = priority.topk(min(count, allowed.shape[1]), dim=1)
    items = one.found.items[rows].gather(1, best.indices).masked_fill(best.values < 0, -1)
    return torch.nn.functional.pad(items, (0, count - items.shape[1]), value=-1)
