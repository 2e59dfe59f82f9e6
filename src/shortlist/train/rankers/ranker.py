"""Rankers taught for what they will be served: which wanted items they see, against which others, with which weight.

Four modes, after the two-stage bounds paper (section 4.2) and the table of alternatives beside it:

- `original`: every wanted item counts alike, whether the nominators found it or not (TS);
- `harmonised`: only what the nominators found counts (H-TS);
- `weighted`: every wanted item counts by how likely it is found, estimated from what is known of it;
- `mixed`: a blend of the first two, `mix` of the weight spread evenly.

Others to prefer the wanted item to are drawn from the catalogue, from the candidates of the same request, or half from
either. Requests come from a rehearsal, in which the nominators did not learn from what is wanted.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.errors import ConfigError, DataError
from shortlist.train.context import RequestBatch, TrainContext
from shortlist.train.loop.convergence import course
from shortlist.train.loop.loop import Loop
from shortlist.train.loop.losses import listwise_loss
from shortlist.train.loop.ranges import check_word
from shortlist.train.rankers.weights import Advice, Guard, Weights, likely_retrieved, weigh

MODES = ("original", "harmonised", "weighted", "mixed")
NEGATIVES = ("catalogue", "candidates", "both")
CALIBRATIONS = ("none", "platt", "isotonic")
HELD = 5  # one round in so many is not learned from but decides when to stop

Score = Callable[[Query, Candidates], Tensor]
"""Numbers for candidates [B, K], with gradients."""


@dataclass(frozen=True, eq=False)
class RankingLists:
    """B small lists to order: in place 0 the wanted item, after it others; `shift` is added to the scores."""

    query: Query
    found: Candidates  # [B, 1 + M]
    shift: Tensor  # [B, 1 + M]
    weight: Tensor  # [B]


@dataclass(frozen=True)
class RankerTrainer:
    """What all trainers of rankers have: how instances are chosen, what they are set against, how long it takes."""

    mode: str = "harmonised"
    negatives: str = "both"
    n_negatives: int = 60  # others in a list
    mix: float = 0.5  # of the mode "mixed": the share of weight that is spread evenly
    positives_per_request: int = 8  # wanted items of a request that are shown in an epoch
    correct: bool = True  # draws from the catalogue stand for all of it: log(N / drawn) is added
    min_recall: float = 0.10  # below it, learning on the retrieved is warned of
    epochs: int = 20
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    patience: int = 3
    calibrate: str = "none"

    def __post_init__(self) -> None:
        check_word("mode", self.mode, MODES)
        check_word("negatives", self.negatives, NEGATIVES)
        check_word("calibrate", self.calibrate, CALIBRATIONS)

    def lessons(self, context: TrainContext, what: str) -> "TrainingSet":
        """The rehearsed requests as lessons of this trainer."""
        if not context.rounds:
            raise ConfigError(
                f"{what}: a ranker learns from rehearsed requests and got none; put it after a nominator"
            )
        return TrainingSet(self, context.rounds, len(context.catalog), context.seed, what)

    def learn(self, model: nn.Module, score: Score, context: TrainContext, what: str) -> "TrainingSet":
        """Teach a model in place; it keeps the weights that ordered held-back requests, as served, best."""
        lessons = self.lessons(context, what)

        def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
            for number in np.random.default_rng((context.seed, epoch)).permutation(len(lessons.taught)):
                lists = lessons.lists(int(number), epoch)
                if lists is not None:
                    yield lambda lists=lists: loss_of(score, lists)  # type: ignore[misc]

        @torch.no_grad()
        def judge() -> float:
            losses = [
                listwise_loss(score(one.query, one.found), one.wanted, one.found.valid)
                for one in lessons.held
            ]
            return -float(torch.stack(losses).sum())

        loop = Loop(self.epochs, self.learning_rate, self.weight_decay, self.patience)
        steps = len(lessons.taught)
        judged = loop.run(model, batches, steps, what, context.progress, judge if lessons.held else None)
        context.note(what, course(judged, loop.epochs, loop.patience) | lessons.told())
        return lessons


def loss_of(score: Score, lists: RankingLists) -> Tensor:
    """The weighted mean over lists of the softmax loss of the wanted item."""
    scores = (score(lists.query, lists.found) + lists.shift).masked_fill(~lists.found.valid, -torch.inf)
    losses = scores.logsumexp(1) - scores[:, 0]
    return (losses * lists.weight).sum() / lists.weight.sum().clamp(min=1e-12)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Rehearsed requests in the shape a mode wants them; all chance is a function of seed, epoch and round."""

    trainer: RankerTrainer
    rounds: Sequence[RequestBatch]
    n_items: int
    seed: int
    what: str = "ranker"

    @cached_property
    def taught(self) -> list[RequestBatch]:
        """The rounds to learn from."""
        return [one for at, one in enumerate(self.rounds) if at % HELD != HELD - 1]

    @cached_property
    def held(self) -> list[RequestBatch]:
        """The rounds that say when to stop, and fit a calibration."""
        return [one for at, one in enumerate(self.rounds) if at % HELD == HELD - 1]

    @cached_property
    def advice(self) -> Advice:
        """What the guard says of the instances."""
        hit, items, _ = self._instances
        return Guard(self.trainer.min_recall).check(hit, items, self.weights)

    @cached_property
    def weights(self) -> Weights:
        """The weight of every wanted item of the taught rounds, in their order."""
        hit, _, told = self._instances
        near = likely_retrieved(hit, told) if self.trainer.mode == "weighted" else hit
        try:
            return weigh(near, self._blend)
        except DataError as error:
            raise DataError(f"{self.what}: {error}") from error

    def told(self) -> dict[str, Any]:
        """The facts of these lessons in plain values."""
        advice = self.advice
        warnings = [f"{self.what}: {one}" for one in (*self._little(advice), *self._strangers(advice))]
        return {
            "mode": self.trainer.mode,
            "negatives": self.trainer.negatives,
            "harmony": advice.as_dict() | {"clipped": self.weights.clipped},
            "warnings": warnings,
        }

    def _little(self, advice: Advice) -> tuple[str, ...]:
        """What the guard has against learning on the retrieved, where that is done."""
        return advice.reasons if self.trainer.mode != "original" else ()

    def _strangers(self, advice: Advice) -> tuple[str, ...]:
        """Who sees the not retrieved only where they are wanted learns that they are better than candidates."""
        if self.trainer.mode == "harmonised" or self.trainer.negatives != "candidates" or advice.recall == 1:
            return ()
        return (
            f"{1 - advice.recall:.0%} of wanted items were not retrieved and are only shown as better than candidates; "
            "with negatives = 'candidates' use mode = 'harmonised', or draw negatives from the 'catalogue'",
        )

    def lists(self, number: int, epoch: int) -> RankingLists | None:
        """The lists of one taught round in one epoch; None where it holds nothing to learn from."""
        one, weight = self.taught[number], self._weight_of[number]
        generator = torch.Generator().manual_seed(hash((self.seed, epoch, number)) & (2**62 - 1))
        chance = torch.rand(one.truth.shape, generator=generator).masked_fill(weight <= 0, -1.0)
        at = chance.topk(min(self.trainer.positives_per_request, chance.shape[1]), dim=1).indices  # [B, P]
        rows, places = torch.nonzero(chance.gather(1, at) >= 0, as_tuple=True)  # [I]
        if not len(rows):
            return None
        chosen = at[rows, places]
        others, shift = self._others(one, rows, generator)
        items = torch.cat([one.truth[rows, chosen][:, None], others], dim=1)  # [I, 1 + M]
        return RankingLists(
            one.query.take(rows),
            known(one.found, rows, items),
            torch.nn.functional.pad(shift, (1, 0)),
            weight[rows, chosen].to(torch.float32),
        )

    def _others(self, one: RequestBatch, rows: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """What wanted items are set against [I, M], -1 = none, and what is added to their scores [I, M]."""
        n_negatives = self.trainer.n_negatives
        near = {"catalogue": 0, "candidates": n_negatives, "both": n_negatives // 2}[self.trainer.negatives]
        close = _from_candidates(one, rows, near, generator)
        wide = torch.randint(max(self.n_items, 1), (len(rows), n_negatives - near), generator=generator)
        wide = wide.masked_fill(is_in(wide, one.truth[rows]), -1)
        # Draws of two kinds come from no single distribution: only those of the catalogue alone are corrected.
        alone = self.trainer.correct and near == 0
        # Of N items as likely each, those wanted are masked: what is left then expects the sum over all the others.
        shift = float(np.log(max(self.n_items, 1) / n_negatives)) if alone else 0.0
        others = torch.cat([close, wide], dim=1)
        return others, torch.full(others.shape, shift)

    @property
    def _blend(self) -> float:
        return {"original": 1.0, "harmonised": 0.0, "weighted": 0.0, "mixed": self.trainer.mix}[
            self.trainer.mode
        ]

    @cached_property
    def _instances(self) -> tuple[Any, Any, Any]:
        """Whether each wanted item was found [m], the items [m] and what is told of each instance [m, F]."""
        hit, items, told = [], [], []
        counts = np.zeros(max(self.n_items, 1))
        for one in self.taught:
            np.add.at(counts, one.truth[self._known(one)].numpy(), 1)
        for one in self.taught:
            there = self._known(one)
            found = is_in(one.truth, one.found.items.masked_fill(~one.found.valid, -1))
            length = (one.query.history >= 0).sum(1, keepdim=True).expand(there.shape)
            hit.append(found[there].numpy())
            items.append(one.truth[there].numpy())
            told.append(np.column_stack([np.log1p(counts[items[-1]]), np.log1p(length[there].numpy())]))
        return np.concatenate(hit), np.concatenate(items), np.concatenate(told)

    @cached_property
    def _weight_of(self) -> list[Tensor]:
        """The weights at the places of each taught round's wanted items [B, R], 0 for padding."""
        values, begun, placed = torch.from_numpy(self.weights.values), 0, []
        for one in self.taught:
            there = self._known(one)
            at = torch.zeros(one.truth.shape, dtype=torch.float64)
            count = int(there.sum())
            at[there] = values[begun : begun + count]
            placed.append(at)
            begun += count
        return placed

    def _known(self, one: RequestBatch) -> Tensor:
        """Where wanted items of the catalogue stand [B, R]."""
        return (one.truth >= 0) & (one.truth < self.n_items)


def known(found: Candidates, rows: Tensor, items: Tensor) -> Candidates:
    """Items [I, M] of requests `rows` [I] as candidates: what was found keeps its columns, the rest has NaN there.

    An item that was not found comes in with the lowest score of its request: as if it had been named last.
    """
    at, hit = _places(found, rows, items)
    empty = torch.full(items.shape, torch.nan)
    columns = {
        name: _placed(one, rows, at, hit, empty)
        for name, one in found.columns.items()
        if one.is_floating_point()
    }
    return Candidates.of(items, _placed(found.scores, rows, at, hit, _lowest(found)[rows, None]), columns)


def _places(found: Candidates, rows: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Where each item stands among the candidates of its request, and whether it does [I, M] each."""
    width = found.shape[1]
    if not width:
        return torch.zeros_like(items), torch.zeros_like(items, dtype=torch.bool)
    keys, order = found.items.masked_fill(~found.valid, -1).sort(dim=1)  # [B, K]
    mine = keys[rows]
    at = torch.searchsorted(mine, items.contiguous()).clamp(max=width - 1)
    return order[rows].gather(1, at), (mine.gather(1, at) == items) & (items >= 0)


def _placed(column: Tensor, rows: Tensor, at: Tensor, hit: Tensor, otherwise: Tensor) -> Tensor:
    if not column.shape[1]:
        return otherwise.expand(at.shape).clone()
    return torch.where(hit, column[rows].gather(1, at), otherwise)


def _lowest(found: Candidates) -> Tensor:
    """The lowest score of each request [B], 0 where there is none."""
    if not found.shape[1]:
        return torch.zeros(len(found.items))
    lowest = found.scores.masked_fill(~found.valid, torch.inf).amin(1)
    return torch.where(torch.isfinite(lowest), lowest, 0.0)


def _from_candidates(one: RequestBatch, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Candidates that are not wanted, at random without repeats [I, count], -1 where there are too few."""
    may = (one.found.valid & ~one.wanted)[rows]  # [I, K]
    chance = torch.rand(may.shape, generator=generator).masked_fill(~may, -1.0)
    best = chance.topk(min(count, may.shape[1]), dim=1)
    items = one.found.items[rows].gather(1, best.indices).masked_fill(best.values < 0, -1)
    return torch.nn.functional.pad(items, (0, count - items.shape[1]), value=-1)
