"""Toy stages, toy requests and a small pipeline with random weights, for tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from shortlist.data import Candidates, Catalog, Query, Vocabulary
from shortlist.data.membership import is_in
from shortlist.evaluate.losses import StageTrace, decompose
from shortlist.grammar import Filter, Hydrator, Nominator, Pipeline, Scorer, Selector, Stage
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.sequence.two_tower import TwoTower, TwoTowerConfig
from shortlist.nominate import CoVisit, ModelNominator, Popular
from shortlist.pipeline import About, Recommender, Slate, Trace, run
from shortlist.stages import Available, Diverse, FeatureRanker, RankingFeatures, Seen, TowerScorer
from shortlist.state.histories import UserHistories

N_ITEMS = 40
N_CATEGORIES = 4


def run_checked(pipeline: Stage, query: Query) -> Slate:
    """Run, then check conservation of candidates and the account of lost relevant items."""
    slate = run(pipeline, query)
    check_losses(slate.trace.check())
    return slate


def check_losses(trace: Trace, n_relevant: int = 24) -> None:
    """The losses of the stages add up exactly, as sums and as a product of rates, for items 0..n_relevant - 1."""
    count = len(trace.query)
    items = torch.arange(n_relevant).expand(count, -1)
    after = [step.after.items.masked_fill(~step.after.valid, -1) for step in trace.steps]
    alive = np.stack([is_in(items, one.to(items.device)).flatten().numpy() for one in after], axis=1)
    losses = decompose(StageTrace(alive, trace.names, np.repeat(np.arange(count), n_relevant)))
    assert int(losses.alive[0]) == count * n_relevant
    assert int(losses.first_losses.sum()) + int(losses.alive[-1]) == count * n_relevant
    if count:
        assert losses.error is not None
        assert losses.product_error is not None
        assert abs(losses.error - losses.product_error) < 1e-12


def query_of(*histories: Sequence[int], seeds: Sequence[int] | None = None) -> Query:
    """Requests with these histories; one request with an empty history by default."""
    return Query.of(histories or [[]], seeds=seeds)


def found(*rows: Sequence[float | None]) -> Candidates:
    """Candidates 0, 1, 2 ... of each request with these scores; None is an empty position."""
    items = torch.tensor(
        [[-1 if score is None else place for place, score in enumerate(row)] for row in rows]
    )
    scores = torch.tensor([[0.0 if score is None else score for score in row] for row in rows])
    return Candidates.of(items, scores)


def chance(query: Query, items: Tensor, salt: int, sides: int) -> Tensor:
    """A pseudo-random number 0..sides-1 for every item [B, K] from the seed of the request and the item."""
    mixed = (items + 3) * 7919 + query.seed[:, None] * 104_729 + salt * 1_299_709
    return (mixed ^ (mixed >> 7)) * 2_654_435_761 % 1_000_003 % sides


@dataclass(frozen=True, eq=False, repr=False)
class Listed(Nominator):
    """Nominates the same list for every request."""

    rows: Tensor
    scores: Tensor

    def nominate(self, query: Query) -> Candidates:
        shape = (len(query), len(self.rows))
        return Candidates.of(self.rows.expand(shape), self.scores.expand(shape))


def listed(name: str, rows: Sequence[int], scores: Sequence[float] | None = None, limit: int = 100) -> Listed:
    given = [float(len(rows) - place) for place in range(len(rows))] if scores is None else scores
    return Listed(torch.tensor(rows, dtype=torch.int64), torch.tensor(given), name=name, limit=limit)


@dataclass(frozen=True, eq=False, repr=False)
class RandomNominator(Nominator):
    """Nominates random items, with repeats and empty positions."""

    n_items: int = N_ITEMS
    width: int = 12
    salt: int = 0

    def nominate(self, query: Query) -> Candidates:
        places = torch.arange(self.width).expand(len(query), self.width)
        items = chance(query, places, self.salt, self.n_items + 3) - 3
        return Candidates.of(items, -places.float())


@dataclass(frozen=True, eq=False, repr=False)
class RandomFilter(Filter):
    """Removes one candidate in `sides`."""

    salt: int = 0
    sides: int = 3

    def keep(self, query: Query, found: Candidates) -> Tensor:
        return chance(query, found.items, self.salt, self.sides) > 0


@dataclass(frozen=True, eq=False, repr=False)
class RandomScorer(Scorer):
    """Random scores with many ties; `broken` makes some of them NaN, others infinite."""

    salt: int = 0
    sides: int = 5
    broken: bool = False

    def score(self, query: Query, found: Candidates) -> Tensor:
        scores = chance(query, found.items, self.salt, self.sides).float()
        if not self.broken:
            return scores
        return scores.masked_fill(scores == 1, torch.nan).masked_fill(scores == 2, torch.inf)


@dataclass(frozen=True, eq=False, repr=False)
class Label(Hydrator):
    """Adds a column."""

    column: str = "label"

    def columns(self, query: Query, found: Candidates) -> Mapping[str, Tensor]:
        return {self.column: found.items * 10}


@dataclass(frozen=True, eq=False, repr=False)
class Last(Selector):
    """Selects from the end, including empty positions and the same candidate twice."""

    def select(self, query: Query, found: Candidates) -> Tensor:
        width = found.shape[1]
        backwards = torch.arange(width - 1, -1, -1).expand(found.shape)
        return torch.cat([backwards[:, :1], backwards], dim=1)


def towers(seed: int = 0, n_items: int = N_ITEMS, width: int = 8, max_history: int = 6) -> TwoTower:
    """Two towers with random weights."""
    torch.manual_seed(seed)
    config = TwoTowerConfig(n_items, max_history, N_CATEGORIES, width, hidden=16)
    return TwoTower(config).with_categories(torch.arange(n_items) % N_CATEGORIES).eval()


def ranker(nominators: tuple[str, ...], seed: int = 0, name: str = "rank") -> FeatureRanker:
    """A ranker with random weights."""
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 50, (2, N_ITEMS), generator=generator)
    features = RankingFeatures(nominators, counts[0], counts[1], torch.arange(N_ITEMS) % N_CATEGORIES)
    torch.manual_seed(seed)
    return FeatureRanker(features, FeatureMLP([len(features.names), 8]).eval(), name=name)


def covisit(seed: int = 0) -> CoVisit:
    """Random neighbours, some positions empty."""
    generator = torch.Generator().manual_seed(seed)
    neighbour = torch.randint(-1, N_ITEMS, (N_ITEMS, 5), generator=generator)
    likeness = torch.rand(N_ITEMS, 5, generator=generator).masked_fill(neighbour < 0, 0.0)
    return CoVisit(neighbour, likeness, name="covisit")


def tiny(seed: int = 0) -> Pipeline:
    """A pipeline with all kinds of stages and random weights."""
    order = torch.randperm(N_ITEMS, generator=torch.Generator().manual_seed(seed))
    share = torch.linspace(1.0, 0.1, N_ITEMS) / N_ITEMS
    category = torch.arange(N_ITEMS) % N_CATEGORIES
    allowed = torch.arange(N_ITEMS) != 13
    popular = Popular(order, share, name="popular")
    nearest = ModelNominator(towers(seed), name="nearest")
    prerank = TowerScorer(towers(seed + 1), name="prerank")
    rank = ranker(("popular", "covisit", "nearest"), seed)
    diverse = Diverse(torch.eye(N_CATEGORIES)[category], 0.2, name="diverse")
    pool = popular % 12 + covisit(seed) % 12 + nearest % 12
    filters = pool >> Seen(name="seen") >> Available(allowed, category, name="available")
    return filters >> prerank % 15 >> rank % 10 >> diverse % 5


def tiny_recommender(seed: int = 0) -> Recommender:
    """The tiny pipeline with three users a, b and c; c has no history."""
    ids = Vocabulary.of([f"i{row}" for row in range(N_ITEMS)])
    table = pa.table(
        {
            "title": [f"Title {row}" for row in range(N_ITEMS)],
            "category": [f"c{row % N_CATEGORIES}" for row in range(N_ITEMS)],
        }
    )
    histories = UserHistories(torch.tensor([0, 3, 5, 5]), torch.tensor([1, 2, 3, 7, 9]))
    users = Vocabulary.of(["a", "b", "c"])
    return Recommender(tiny(seed), Catalog(ids, table), users, histories, About(name="tiny", ends=1000))
