"""Retrieval by learned slot price: p (r - price) with models of selection and of feedback, both from the log."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from shortlist.lab.experiments.full_stage.sizes import Budget
from shortlist.metrics.funnel.slot_price import ITERATIONS
from shortlist.simulate.full_stage.closed_loop import LoopState
from shortlist.train.loop.cuda_graph import Recorded, on, stream_for
from shortlist.train.objectives.stage_log import Array, StageLog

RATE, DECAY = 1e-2, 0.3  # of AdamW
START = 0.05  # standard deviation of the first factors
BATCH, LARGEST, STEPS = 4096, 16384, 50  # at least 50 steps per epoch before batches grow
REDUCE = {"mean": "mean", "lowest": "amin"}  # prices from the predicted r of shown items

Value = Callable[[Tensor], Tensor]  # utilities of the users [U] for scores of retrieval [U, I]


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Cells with a label and a weight [N]."""

    users: Tensor
    items: Tensor
    labels: Tensor
    weights: Tensor

    @classmethod
    def of(
        cls, log: StageLog, rows: Array, labels: Array, device: torch.device, weighted: bool
    ) -> "LabelledRows":
        """Some rows of a log; their weight is 1 / incl_prob, on average 1, or 1."""
        weights = np.ones(len(rows))
        if weighted and log.incl_prob is not None:
            weights = 1 / log.incl_prob[rows].astype(np.float64)
        columns = (log.user_id[log.request[rows]], log.item_id[rows])
        users, items = (torch.from_numpy(np.asarray(one, np.int64)).to(device) for one in columns)
        floats = (
            torch.from_numpy(np.asarray(one, np.float32)).to(device)
            for one in (labels, weights / weights.mean())
        )
        return cls(users, items, *floats)

    def __len__(self) -> int:
        return len(self.users)


def learned_slot_price(
    log: StageLog, state: LoopState, budget: Budget, seed: int, price: str = "mean"
) -> Tensor:
    """p (r - price) of all cells [U, I]; the price is the mean or lowest predicted r of what a user was shown.

    p is the probability of a retrieved item to be shown, r that of a shown item to be liked. Iterates of the price are
    not compared by estimated utility: r of items that were never shown is too uncertain, the estimate prefers them.
    """
    device, shape = state.world.device, (state.world.n_users, state.world.n_items)
    seed = seed + state.number
    shown = np.flatnonzero((log.stage == log.n_stages) & (log.y >= 0))
    known = LabelledRows.of(log, shown, log.y[shown], device, False)
    relevance = predicted(known, shape, budget, seed)
    entered = np.flatnonzero(log.stage >= 1)
    chosen = log.stage[entered] == log.n_stages
    inclusion = predicted(LabelledRows.of(log, entered, chosen, device, True), shape, budget, seed + 1)
    values = relevance[known.users, known.items]
    start = values.mean().expand(shape[0]).contiguous()  # of users who were shown nothing
    prices = start.scatter_reduce(0, known.users, values, REDUCE[price], include_self=False)
    return inclusion * (relevance - prices[:, None])


def best_priced(inclusion: Tensor, relevance: Tensor, value: Value, slots: int) -> Tensor:
    """The scores [U, I] of the best iterate of every user by `value`; PRP is the first one.

    The price is the value of a slot under the scores before.
    """
    best = relevance
    utility = worth = value(best)
    for _ in range(ITERATIONS):
        scores = inclusion * (relevance - (worth / slots)[:, None])
        worth = value(scores)
        best = torch.where((worth > utility)[:, None], scores, best)
        utility = torch.maximum(worth, utility)
    return best


def predicted(rows: LabelledRows, shape: tuple[int, int], budget: Budget, seed: int) -> Tensor:
    """Probabilities of all cells [U, I] from logistic matrix factorization with biases."""
    model = _Factors(rows, shape, budget.width // 4, seed)
    generator, size = np.random.default_rng([seed, 35]), batch_size(len(rows))
    with on(stream_for(rows.users.device)):
        for _ in range(budget.epochs):
            order = torch.from_numpy(generator.permutation(len(rows))).to(rows.users.device)
            for start in range(0, len(rows) - size + 1, size):
                model.step(order[start : start + size])
    return model.probabilities()


def batch_size(count: int) -> int:
    """Rows of a step for a log of `count` rows."""
    return min(count, max(BATCH, min(LARGEST, count // STEPS)))


class _Factors(nn.Module):
    """Biases and factors of users and items, with their optimizer."""

    def __init__(self, rows: LabelledRows, shape: tuple[int, int], width: int, seed: int) -> None:
        super().__init__()
        generator, device = torch.Generator().manual_seed(seed), rows.users.device
        drawn = [START * torch.randn((count, width), generator=generator) for count in shape]
        self.factors = nn.ParameterList([nn.Parameter(one.to(device)) for one in drawn])
        zeros = (torch.zeros((count, 1), device=device) for count in shape)
        self.biases = nn.ParameterList([nn.Parameter(one) for one in zeros])
        rate = (rows.labels * rows.weights).sum() / rows.weights.sum()
        self.first = nn.Parameter(torch.logit(rate.clamp(1e-4, 1 - 1e-4)))
        self.rows, self.at = rows, torch.zeros(batch_size(len(rows)), dtype=torch.int64, device=device)
        self.optimizer = torch.optim.AdamW(
            self.parameters(), lr=RATE, weight_decay=DECAY, fused=True, capturable=device.type == "cuda"
        )
        stream = stream_for(device)
        self.recorded = None if stream is None else Recorded(self._update, stream)

    def step(self, at: Tensor) -> None:
        """One step with these rows."""
        self.at.copy_(at)
        (self.recorded or self._update)()

    def _update(self) -> None:
        users, items = self.rows.users[self.at], self.rows.items[self.at]
        match, biases = (
            [table.index_select(0, rows) for table, rows in zip(pair, (users, items), strict=True)]
            for pair in (self.factors, self.biases)
        )
        logits = self.first + (match[0] * match[1]).sum(1) + (biases[0] + biases[1]).squeeze(1)
        losses = F.binary_cross_entropy_with_logits(
            logits, self.rows.labels[self.at], self.rows.weights[self.at]
        )
        self.optimizer.zero_grad(set_to_none=True)
        losses.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    @torch.no_grad()
    def probabilities(self) -> Tensor:
        """Of all cells [U, I]."""
        match = self.factors[0] @ self.factors[1].T
        return torch.sigmoid(self.first + self.biases[0] + self.biases[1].T + match)
