"""The training set of a ranker: which targets it is trained on, against which negatives, with which weights.

Four modes, after the two-stage bounds paper (section 4.2) and its table of alternatives:

- `original`: all targets have equal weight, retrieved by the nominators or not (TS);
- `harmonised`: only targets that the nominators retrieved have weight (H-TS);
- `weighted`: targets are weighted by their estimated probability to be retrieved;
- `mixed`: a blend of the first two; `mix` is the share of weight that is spread evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from shortlist.data import Candidates, Query
from shortlist.data.membership import is_in
from shortlist.pipeline.about import RetrievedTargets
from shortlist.settings import setting
from shortlist.train.context import RequestBatch
from shortlist.train.objectives.cuts import LoggedCuts
from shortlist.train.objectives.full_stage import FullStageSettings
from shortlist.train.rankers.training_data.graded import (
    drawn,
    ladder_of,
    list_cuts,
    list_grades,
    reaching,
    stage_negatives,
)
from shortlist.train.rankers.training_data.listed import candidates_of, places, valid_items
from shortlist.train.rankers.training_data.weights import (
    Guard,
    NothingRetrievedError,
    Weights,
    retrieval_probability,
    weigh,
)

MODES = ("original", "harmonised", "weighted", "mixed")
NEGATIVES = ("catalogue", "candidates", "both", "all-candidates")
VALIDATION = 5  # one batch in this many is held out for early stopping and calibration


@dataclass(frozen=True)
class ListSampling(FullStageSettings):
    """Which targets and negatives a ranker is trained on, and by which objective."""

    targets_per_item: ClassVar[float] = 20.0  # fewer retrieved targets per target item are warned of

    mode: str = setting("harmonised", "Weights of targets by whether they were retrieved.", choices=MODES)
    negatives: str = setting(
        "both",
        "Where negatives come from: sampled from the catalogue, from the request's candidates, half from each, or all "
        "candidates of the request.",
        choices=NEGATIVES,
    )
    n_negatives: int = setting(60, "Sampled negatives per target.", least=1, most=1_000_000)
    mix: float = setting(0.5, 'Share of weight spread evenly, with mode = "mixed".', least=0, most=0.99)
    positives_per_request: int = setting(
        8, "Targets of a request per epoch; all-candidates uses all.", least=1, most=1_000_000
    )
    negatives_per_request: int = setting(
        80,
        "Most negatives of a request, chosen at random, with all-candidates; 0 = all.",
        least=0,
        most=1e9,
    )
    logq_correction: bool = setting(
        True, "Add log(items / n_negatives) to logits of negatives sampled from the catalogue alone."
    )
    min_recall: float = setting(
        0.10, "Warn below this share of targets among the candidates.", least=0, most=1
    )


@dataclass(frozen=True, eq=False)
class RankingLists:
    """L lists to rank: candidates, which of them are targets, and the weight of each target."""

    query: Query
    found: Candidates  # [L, M]
    is_target: Tensor  # bool [L, M]; targets never compete with each other
    logit_shift: Tensor  # [L, M], added to the scores in the loss
    weight: Tensor  # [L, M], 0 where the candidate is not trained on as a target
    labels: Tensor | None = None  # [L, M] graded labels, NaN = none; None: 1 for targets, 0 for others
    inclusion: Tensor | None = (
        None  # [L, M] weights of candidates, 1 / their inclusion probability; None: all are 1
    )
    cuts: LoggedCuts | None = None  # of logged requests, for objectives that read them

    @property
    def graded(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Labels, mask of candidates with a label, and weights of candidates, as objectives read them [L, M] each."""
        labels = self.is_target.float() if self.labels is None else self.labels
        return labels.nan_to_num(0.0), self.found.valid & ~labels.isnan(), self.inclusion

    @property
    def list_weight(self) -> Tensor:
        """The mean weight of the targets of each list [L], 0 without any."""
        return self.weight.sum(1) / (self.weight > 0).sum(1).clamp(min=1)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Requests with out-of-fold candidates as lists to rank; samples are a function of seed, epoch and batch."""

    sampling: ListSampling
    batches: Sequence[RequestBatch]
    n_items: int
    seed: int
    what: str = "ranker"

    @cached_property
    def training(self) -> list[RequestBatch]:
        """The batches to train on."""
        return [one for at, one in enumerate(self._usable) if at % VALIDATION != VALIDATION - 1]

    @cached_property
    def validation(self) -> list[RequestBatch]:
        """The batches for early stopping and calibration."""
        return [one for at, one in enumerate(self._usable) if at % VALIDATION == VALIDATION - 1]

    @cached_property
    def validation_lists(self) -> list[RankingLists]:
        """The validation requests as lists: all targets among the candidates have weight 1."""
        fewer = [self._fewer(one) for one in self.validation]
        made = [self._graded(one, is_in(one.targets, valid_items(one.found)).double()) for one in fewer]
        return [one for one in made if one is not None]

    @property
    def relevant_from(self) -> float:
        """The smallest label of a target, for objectives with binary labels."""
        ladders = {ladder_of(one, self.sampling)[-1] for one in self.batches if one.logged is not None}
        return min(ladders, default=1.0)

    @cached_property
    def _usable(self) -> list[RequestBatch]:
        """The batches without candidates that the user interacts with after the targets: they are no negatives.

        Logged requests keep the candidates that reached the stage and whose feedback is known.
        """
        known = [reaching(one, self.sampling) for one in self.batches]
        return [one if one.later is None else without_later(one) for one in known]

    @cached_property
    def retrieved(self) -> RetrievedTargets:
        """How many targets were retrieved, and whether training on those is safe."""
        return Guard(self.sampling.min_recall, self.sampling.targets_per_item).check(
            self._retrieved, self._items, self.weights
        )

    @cached_property
    def weights(self) -> Weights:
        """The weight of every target of the training batches, in their order."""
        weighted = self.sampling.mode == "weighted"
        near = retrieval_probability(self._retrieved, self._features) if weighted else self._retrieved
        try:
            return weigh(near, self._blend)
        except NothingRetrievedError as error:
            raise NothingRetrievedError(f"{self.what}: {error}") from error

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons not to trust training on these targets and negatives."""
        reasons = self.retrieved.reasons if self.sampling.mode != "original" else ()
        return tuple(f"{self.what}: {one}" for one in (*reasons, *self._biased_negatives()))

    def _biased_negatives(self) -> tuple[str, ...]:
        """Targets that were not retrieved but never occur as negatives would be trained to outrank every candidate."""
        missed = 1 - self.retrieved.recall
        own_candidates = self.sampling.negatives in ("candidates", "all-candidates")
        if self.sampling.mode == "harmonised" or not own_candidates or missed == 0:
            return ()
        return (
            f"{missed:.0%} of targets were not retrieved and occur only as better than candidates; with negatives = "
            f"{self.sampling.negatives!r} use mode = 'harmonised', or sample negatives from the 'catalogue'",
        )

    def lists(self, number: int, epoch: int) -> RankingLists | None:
        """The lists of one training batch in one epoch; None where it has no target to train on."""
        by_stage = self.training[number].logged is not None and self.sampling.stage_negatives
        if self.sampling.negatives == "all-candidates" and not by_stage:
            return self._whole_requests[number]
        return self._sampled(number, epoch)

    def _sampled(self, number: int, epoch: int) -> RankingLists | None:
        """One list per target: the target first, then sampled negatives."""
        one, weight = self.training[number], self._weight_of[number]
        generator = torch.Generator().manual_seed(hash((self.seed, epoch, number)) & (2**62 - 1))
        priority = torch.rand(one.targets.shape, generator=generator).masked_fill(weight <= 0, -1.0)
        most = min(self.sampling.positives_per_request, priority.shape[1])
        at = priority.topk(most, dim=1).indices  # [B, P]
        rows, places = torch.nonzero(priority.gather(1, at) >= 0, as_tuple=True)  # [I]
        if not len(rows):
            return None
        chosen = at[rows, places]
        negatives, shift = self._negatives(one, rows, generator)
        items = torch.cat([one.targets[rows, chosen][:, None], negatives], dim=1)  # [I, 1 + M]
        first = (torch.arange(items.shape[1]) == 0).expand(items.shape)
        own = weight[rows, chosen].to(torch.float32)[:, None]
        return RankingLists(
            one.query.take(rows),
            candidates_of(one.found, rows, items),
            first,
            pad(shift, (1, 0)),
            own * first,
            *list_grades(one, rows, items, first, self.sampling),
            list_cuts(one, rows, items, self.sampling),
        )

    def _negatives(
        self, one: RequestBatch, rows: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Negatives of each target [I, M], -1 = none, and what is added to their logits [I, M]."""
        if one.logged is not None and self.sampling.stage_negatives:
            negatives = stage_negatives(one, rows, self.sampling, generator)
            return negatives, torch.zeros(negatives.shape)
        count = self.sampling.n_negatives
        near = {"catalogue": 0, "candidates": count, "both": count // 2}[self.sampling.negatives]
        close = _from_candidates(one, rows, near, generator)
        random = torch.randint(max(self.n_items, 1), (len(rows), count - near), generator=generator)
        random = random.masked_fill(is_in(random, _no_negatives(one)[rows]), -1)  # [I, M]
        # Negatives of two kinds come from no single distribution: only those of the catalogue alone are corrected.
        corrected = self.sampling.logq_correction and near == 0
        # Targets are masked out of N equally likely items, so the sum over samples expects that over all others.
        shift = float(np.log(max(self.n_items, 1) / count)) if corrected else 0.0
        negatives = torch.cat([close, random], dim=1)
        return negatives, torch.full(negatives.shape, shift)

    @cached_property
    def _whole_requests(self) -> list[RankingLists | None]:
        """One list per request, the same in every epoch: all candidates, and targets that were not retrieved."""
        every = zip(self.training, self._weight_of, strict=True)
        return [self._graded(self._fewer(one, number), weight) for number, (one, weight) in enumerate(every)]

    def _fewer(self, one: RequestBatch, number: int = 0) -> RequestBatch:
        """The same requests with the largest number of negatives of a request."""
        most = self.sampling.negatives_per_request
        return with_fewer_negatives(one, most, self.seed + number) if most else one

    def _graded(self, one: RequestBatch, weight: Tensor) -> RankingLists | None:
        """Whole requests with their graded labels."""
        lists = _whole_request(one, weight)
        if lists is None:
            return None
        items = lists.found.items.masked_fill(~lists.found.valid, -1)
        rows = torch.arange(len(items))
        labels, inclusion = list_grades(one, rows, items, lists.is_target, self.sampling)
        cuts = list_cuts(one, rows, items, self.sampling)
        return replace(lists, labels=labels, inclusion=inclusion, cuts=cuts)

    @property
    def _blend(self) -> float:
        blends = {"original": 1.0, "harmonised": 0.0, "weighted": 0.0, "mixed": self.sampling.mix}
        return blends[self.sampling.mode]

    @cached_property
    def _retrieved(self) -> Any:
        """Whether each target is among the candidates [m]."""
        flags = [is_in(one.targets, valid_items(one.found))[self._known(one)] for one in self.training]
        return torch.cat(flags).numpy()

    @cached_property
    def _items(self) -> Any:
        """The item of each target [m]."""
        return torch.cat([one.targets[self._known(one)] for one in self.training]).numpy()

    @cached_property
    def _features(self) -> Any:
        """Log popularity among the targets, and log history length, of each target [m, 2]."""
        counts = np.bincount(self._items, minlength=max(self.n_items, 1))
        lengths = [
            (one.query.history >= 0).sum(1, keepdim=True).expand(one.targets.shape)[self._known(one)]
            for one in self.training
        ]
        return np.column_stack([np.log1p(counts[self._items]), np.log1p(torch.cat(lengths).numpy())])

    @cached_property
    def _weight_of(self) -> list[Tensor]:
        """The weights of each training batch's targets [B, R], times the strengths of their events; 0 for padding."""
        counts = [int(self._known(one).sum()) for one in self.training]
        parts = torch.split(torch.from_numpy(self.weights.values), counts)
        empty = [torch.zeros(one.targets.shape, dtype=torch.float64) for one in self.training]
        weights = [
            weight.masked_scatter(self._known(one), part)
            for one, weight, part in zip(self.training, empty, parts, strict=True)
        ]
        return [
            weight if one.weights is None else weight * one.weights
            for one, weight in zip(self.training, weights, strict=True)
        ]

    def _known(self, one: RequestBatch) -> Tensor:
        """Where targets are items of the catalogue [B, R]."""
        return (one.targets >= 0) & (one.targets < self.n_items)


def without_later(one: RequestBatch) -> RequestBatch:
    """The same requests without candidates among the later items that are no targets."""
    assert one.later is not None
    return replace(one, found=one.found.keep(one.is_target | ~is_in(one.found.items, one.later)))


def with_fewer_negatives(one: RequestBatch, most: int, seed: int) -> RequestBatch:
    """The same requests with all targets and at most `most` other candidates, chosen at random.

    Candidates that earlier stages rank high must not be preferred: a ranker would learn that a high rank is bad.
    """
    negative = one.found.valid & ~one.is_target
    if not bool((negative.sum(1) > most).any()):
        return one
    random = torch.rand(negative.shape, generator=torch.Generator().manual_seed(seed))
    priority = random.masked_fill(~negative, -1.0).masked_fill(one.is_target, 2.0)
    targets = one.is_target.sum(1, keepdim=True)
    chosen = priority.topk(min(most + int(targets.max()), priority.shape[1]), dim=1)
    # A request with fewer targets than others would get more negatives.
    extra = torch.arange(chosen.indices.shape[1]) >= most + targets
    return replace(one, found=one.found.take(chosen.indices.masked_fill((chosen.values < 0) | extra, -1)))


def _whole_request(one: RequestBatch, weight: Tensor) -> RankingLists | None:
    rows = torch.arange(len(one.targets))
    at, hit = places(one.found, rows, one.targets)
    weight = weight.to(torch.float32)
    own = torch.zeros(one.found.shape)
    if one.found.shape[1]:
        own = own.scatter_reduce(1, at, weight.where(hit, 0.0), "amax")
    missed = one.targets.masked_fill(hit | (weight <= 0), -1)
    found, is_target = one.found, one.is_target
    if bool((missed >= 0).any()):
        found = candidates_of(found, rows, torch.cat([valid_items(found), missed], dim=1))
        own = torch.cat([own, weight.where(missed >= 0, 0.0)], dim=1)
        is_target = torch.cat([is_target, missed >= 0], dim=1)
    if not bool((own > 0).any()):
        return None
    return RankingLists(one.query, found, is_target, torch.zeros(own.shape), own)


def _no_negatives(one: RequestBatch) -> Tensor:
    """Items that are never sampled as negatives: targets, later items and the history [B, any]."""
    return torch.cat([one.no_negative, one.query.history], dim=1)


def _from_candidates(one: RequestBatch, rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random candidates that are not targets, without repeats [I, count], -1 where there are too few."""
    return drawn(one, rows, (one.found.valid & ~one.is_target)[rows], count, generator)
