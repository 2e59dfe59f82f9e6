"""A small stage of every type with random weights, in pipelines that can answer."""

import pyarrow as pa
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.index.jtr import grow as grow_jtr
from shortlist.index.tree import TreeIndex, grow, n_rows
from shortlist.models.mixture import Gate, PoolMixture, TwoTowerExperts
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.models.ranking.boosted_trees import Trees
from shortlist.models.ranking.din_ranker import DINRanker, DINRankerConfig
from shortlist.models.ranking.mlp import FeatureMLP
from shortlist.models.ranking.mlp_ranker import MLPRanker, MLPRankerConfig
from shortlist.models.registry import MODELS
from shortlist.nominate import (
    CoVisit,
    InPool,
    JTRNominator,
    ModelNominator,
    Pooled,
    Popular,
    RandomItems,
    Recent,
    Repeat,
    Split,
    TreeNominator,
)
from shortlist.pipeline import About, Recommender
from shortlist.pipeline.registry import TYPES
from shortlist.stages import (
    Available,
    BlendScorer,
    BoostedScorer,
    DINScorer,
    Diverse,
    Explore,
    FeatureRanker,
    MLPScorer,
    ModelScorer,
    RankingFeatures,
    Seen,
    TowerScorer,
)
from shortlist.stages.calibrated import Calibration
from shortlist.stages.catalog_columns import CatalogColumns
from shortlist.state.histories import UserHistories

N, USERS = 24, 4
SIZES = {
    "width": 8,
    "hidden": 8,
    "blocks": 1,
    "layers": (8,),
    "windows": (3, 2),
    "neighbours": 4,
    "pairs": 2 * N,
}
SIZES_OF = {"lightgcn": {"layers": 2}, "gru4rec": {"layers": 1}}


def model(name, seed=0):
    """A model with random weights and valid tables."""
    torch.manual_seed(seed)
    kind = MODELS[name]
    known = {one: value for one, value in SIZES.items() if one in kind.Config.__dataclass_fields__}
    if "n_users" in kind.Config.__dataclass_fields__:
        known["n_users"] = USERS
    made = kind(kind.Config(n_items=N, **known | SIZES_OF.get(name, {}))).eval()
    with torch.no_grad():
        if name == "item-knn":
            made.neighbours.copy_(torch.randint(-1, N, made.neighbours.shape))
        if name == "last-click":
            made.starts.copy_(torch.arange(0, 2 * N + 1, 2))
            made.next_items.copy_(torch.randint(0, N, (2 * N,)))
    return made


def stage(kind: str) -> Stage:
    """A stage of this type, called `it`."""
    return MAKE[kind]() if kind in MAKE else ModelNominator(model(kind), name="it")


def pipeline(kind: str) -> Pipeline:
    """A pipeline with a stage of this type, called `it`, that answers every request."""
    it, popular = stage(kind), Popular(torch.arange(N), torch.linspace(1, 0.1, N), name="popular")
    if it.kind == "nominator":
        return as_pipeline(it + popular >> Seen(name="seen") % 10)
    return as_pipeline(popular >> Seen(name="seen") >> it % 10)


def recommender(kind: str) -> Recommender:
    """Four users with five events each; three of them were trained on."""
    starts = torch.arange(0, 5 * USERS + 1, 5)
    histories = UserHistories(starts, torch.arange(5 * USERS, dtype=torch.int32), torch.full((USERS,), 3))
    users = Vocabulary.of([f"u{row}" for row in range(USERS)])
    catalog = Catalog(Vocabulary.of([f"i{row}" for row in range(N)]), pa.table({}))
    return Recommender(pipeline(kind), catalog, users, histories, About(name="tiny"))


def _features(with_columns: bool) -> RankingFeatures:
    counts = torch.arange(N)
    columns = None
    if with_columns:
        tags = torch.stack([counts % 3, counts % 5 - 1], dim=1)
        columns = CatalogColumns(("a", "b"), torch.randn(N, 2), torch.stack([counts % 4], dim=1), tags)
    extras = ("popular.z", "n_nominators", "category_recency", "age")
    return RankingFeatures(("popular",), counts, counts.flip(0), counts % 4, columns, extras, counts.float())


def _calibration() -> Calibration:
    line = torch.tensor([0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    knots = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    return Calibration(line, knots, (knots + 1.5) / 4)


def _tree() -> TreeNominator:
    tree = grow(torch.randperm(N), N)
    rows = n_rows(tree.shape, N, "slot")
    scorer = make_scorer(ScorerConfig(rows, width=4, hidden=4, layers=(4,), windows=(3, 2)), seed=0)
    return TreeNominator(TreeIndex(tree, scorer.eval()), name="it", beam=4)


def _jtr() -> JTRNominator:
    vectors = model("sasrec")
    return JTRNominator(vectors, grow_jtr(vectors.vectors().detach(), branch=3, leaf=6), name="it")


def _pooled() -> Pooled:
    pools = torch.nn.functional.one_hot(torch.arange(N) % 2, 2).bool()
    experts = TwoTowerExperts(torch.ones(3, 2, dtype=torch.bool), N, 4)
    mixture = PoolMixture(experts, Gate("item", 2, N, pools=pools)).eval()
    return Pooled(mixture, torch.randn(N, 3), torch.ones(2, 3), name="it")


def _boosted() -> BoostedScorer:
    nodes = torch.tensor([1, 1, 2]), torch.tensor([2, 1, 2])  # one split, two leaves
    split = torch.tensor([0, 0, 0]), torch.zeros(3, dtype=torch.float64)
    value = torch.tensor([0.0, -1.0, 1.0], dtype=torch.float64)
    trees = Trees(*split, *nodes, value, torch.tensor([0]), split[1] >= 0)
    return BoostedScorer(_features(True), trees, name="it")


def _blend() -> BlendScorer:
    boosted, network = _boosted(), FeatureMLP([len(_features(True).names), 8]).eval()
    ones = torch.ones(2 + len(boosted.features.scored), dtype=torch.float64)
    return BlendScorer(boosted.features, network, boosted.trees, ones / len(ones), ones, name="it")


def _mlp() -> MLPScorer:
    features = _features(True)
    sizes = MLPRankerConfig(
        N, len(features.names), features.columns.sizes, features.columns.n_tags, 4, 2, (8,)
    )
    return MLPScorer(features, MLPRanker(sizes).eval(), name="it", calibration=_calibration())


def _ranker() -> FeatureRanker:
    features = _features(False)
    return FeatureRanker(features, FeatureMLP([len(features.names), 8]).eval(), name="it")


MAKE = {
    "popular": lambda: Popular(torch.randperm(N), torch.linspace(1, 0.1, N), name="it"),
    "recent": lambda: Recent(torch.randperm(N), torch.linspace(0, 9, N), name="it"),
    "repeat": lambda: Repeat(name="it"),
    "random": lambda: RandomItems(torch.arange(N), name="it"),
    "co-visit": lambda: CoVisit(torch.randint(-1, N, (N, 3)), torch.rand(N, 3), name="it"),
    "tree": _tree,
    "jtr": _jtr,
    "pooled": _pooled,
    "in-pool": lambda: InPool(MAKE["popular"](), torch.arange(N) % 3 == 0, name="it"),
    "split": lambda: Split(nominators=("popular",), limits=((4,), (8,)), history=(3,), name="it", k=10),
    "seen": lambda: Seen(name="it"),
    "available": lambda: Available(torch.arange(N) > 2, torch.arange(N) % 4, name="it"),
    "two-tower-scorer": lambda: TowerScorer(model("two-tower"), name="it", calibration=_calibration()),
    "model-scorer": lambda: ModelScorer(model("mf"), name="it"),
    "feature-ranker": _ranker,
    "din-ranker": lambda: DINScorer(DINRanker(DINRankerConfig(N, 5, 4, (4,), (4,))).eval(), name="it"),
    "mlp-ranker": _mlp,
    "boosted-ranker": _boosted,
    "blend-ranker": _blend,
    "diverse": lambda: Diverse(torch.nn.functional.normalize(torch.randn(N, 4)), name="it", k=10),
    "explore": lambda: Explore(name="it", k=10),
}
EVERY = tuple(TYPES)
