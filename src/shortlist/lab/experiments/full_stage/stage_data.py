"""What the arms of one world, seed and stage are trained and measured on."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from shortlist.lab.experiments.full_stage.arms import PRERANK
from shortlist.lab.experiments.full_stage.grids import Grids
from shortlist.lab.experiments.full_stage.sizes import Size
from shortlist.metrics.funnel.list_metrics import list_metrics, random_ranker
from shortlist.simulate.full_stage.splits import RequestSplits, make_cell_splits, make_splits
from shortlist.simulate.full_stage.static_requests import StaticRequests, exposure_rates

KS = (20, 50)
K = 50  # of the precision that decides on validation
REQUESTS, CELLS = "requests", "cells"
PROTOCOLS = {REQUESTS: make_splits, CELLS: make_cell_splits}
DECIDES = f"precision@{K}"
MASKED = "masked "  # train positives are not listed
OBSERVED = "observed "  # only cells with real feedback are listed and relevant


@dataclass(frozen=True, eq=False)
class StageData:
    """Grids and splits with the candidates of one stage; tensors are on `device`."""

    grids: Grids
    splits: RequestSplits
    size: Size
    stage: str
    device: torch.device
    seed: int

    @classmethod
    def of(
        cls, grids: Grids, size: Size, stage: str, protocol: str, seed: int, device: torch.device
    ) -> "StageData":
        """Requests of the world's own seed."""
        splits = PROTOCOLS[protocol](grids.pools(), size.requests, size.n_train, seed)
        return cls(grids, splits, size, stage, device, seed)

    def measured(self, scores: Tensor) -> dict[str, float]:
        """Means of all columns for scores [U, I] of the whole catalogue, with and without train positives."""
        found = {
            f"{name}{column}": value
            for name, (candidates, relevant) in self.lists.items()
            for column, value in _means(list_metrics(self._top(scores, candidates), relevant, KS)).items()
        }
        return found | self.utilities(scores)

    def precision(self, scores: Tensor) -> float:
        """Mean precision@50 on validation, for scores [U, I]."""
        hits = self._validation.gather(1, self._order(scores, self.candidates)).double().mean(1)
        return float(hits[self._validation.any(1)].mean())

    def random(self) -> dict[str, float]:
        """The columns of a random order in closed form; the utility of one random retrieval."""
        found = {
            f"{name}{column}": value
            for name, (candidates, relevant) in self.lists.items()
            for column, value in _means(_random(candidates, relevant)).items()
        }
        noise = torch.from_numpy(np.random.default_rng([self.seed, 41]).random(self.candidates.shape))
        return found | self.utilities(noise.to(self.device))

    def oracle(self) -> dict[str, float]:
        """Lists by the probability of being an exposed positive; the utility of retrieval by true utilities."""
        pools = self.grids.pools()
        rates = exposure_rates(pools, self.size.requests, self.size.oracle_requests, self.seed + 1_000_003)
        scores = 1e-6 * self._utility  # orders items that were never exposed
        chances = torch.from_numpy(rates * pools.label).to(scores)
        users, items = (
            torch.from_numpy(one).to(self.device) for one in (pools.pools.users, pools.pools.item)
        )
        return self.measured(scores.index_put((users, items), chances)) | self.utilities(self._utility)

    def utilities(self, scores: Tensor) -> dict[str, float]:
        """Expected positives in the shown slots of live funnels that retrieve by these scores [U, I]."""
        if self.stage == PRERANK:
            return {}
        funnels = {"utility": self.size.wide, "tight utility": self.size.tight}
        return {name: self._live_utility(scores, capacities) for name, capacities in funnels.items()}

    def _live_utility(self, scores: Tensor, capacities: tuple[int, int, int]) -> float:
        items = scores.topk(capacities[0], dim=1).indices
        for grid, capacity in zip(self._later_scores, capacities[1:], strict=True):
            items = items.gather(1, grid.gather(1, items).topk(capacity, dim=1).indices)
        return float(self._utility.gather(1, items).sum(1).mean())

    def _top(self, scores: Tensor, candidates: Tensor) -> Tensor:
        """The first 50 candidates of every user by score [U, 50], -1 where there are fewer."""
        order = self._order(scores, candidates)
        return torch.where(candidates.gather(1, order), order, -1).cpu()

    def _order(self, scores: Tensor, candidates: Tensor) -> Tensor:
        return scores.masked_fill(~candidates, -torch.inf).topk(max(KS), dim=1).indices

    @cached_property
    def candidates(self) -> Tensor:
        """What the stage may return [U, I]: the catalogue, or the pools of pre-ranking."""
        pools = torch.from_numpy(self.grids.in_pool).to(self.device)
        return pools if self.stage == PRERANK else torch.ones_like(pools)

    @cached_property
    def lists(self) -> dict[str, tuple[Tensor, Tensor]]:
        """What may be listed [U, I] and test positives [U, R], by prefix of the columns."""
        positives = self._positives(self.splits.test)
        test = _padded(positives)
        known = {"": (self.candidates, test), MASKED: (self.candidates & ~self._trained, test)}
        if self.grids.observed.size:
            observed = torch.from_numpy(self.grids.observed).to(self.device)
            known[OBSERVED] = self.candidates & observed, _padded(positives & observed)
        return known

    @cached_property
    def _trained(self) -> Tensor:
        return self._positives(self.splits.train)

    @cached_property
    def _validation(self) -> Tensor:
        return self._positives(self.splits.validation)

    def _positives(self, requests: StaticRequests) -> Tensor:
        """True for positives of the requests [U, I]."""
        cells = torch.zeros((self.grids.n_users, self.grids.n_items), dtype=torch.bool)
        keep = requests.positives
        cells[torch.from_numpy(requests.users[keep]), torch.from_numpy(requests.item_id[keep])] = True
        return cells.to(self.device)

    @cached_property
    def _utility(self) -> Tensor:
        return torch.from_numpy(self.grids.utility).to(self.device)

    @cached_property
    def _later_scores(self) -> list[Tensor]:
        return [torch.from_numpy(one).to(self.device) for one in (self.grids.prerank, self.grids.rank)]


def _padded(cells: Tensor) -> Tensor:
    """The items of every user that are True [U, I] -> [U, R], padded with -1."""
    known = cells.cpu()
    order = known.byte().sort(dim=1, descending=True, stable=True).indices[:, : int(known.sum(1).max())]
    return torch.where(known.gather(1, order), order, -1)


def _random(candidates: Tensor, relevant: Tensor) -> dict[str, Tensor]:
    """Columns of a random order; of users with at least as many candidates as places."""
    pool, positives = candidates.sum(1).cpu(), (relevant >= 0).sum(1)
    keep = pool >= max(KS)
    return random_ranker(pool[keep], positives[keep], KS)


def _means(columns: dict[str, Tensor]) -> dict[str, float]:
    """Means over users with positives."""
    return {name: float(values.nanmean()) for name, values in columns.items()}
