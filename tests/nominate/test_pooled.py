"""Pooled nominators: their lists equal exhaustive ones, they are stages, and a recipe trains them."""

import json

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.index import search
from shortlist.models.mixture import FrozenTable, Gate, PoolMixture, TwoTowerExperts, feature_subsets
from shortlist.nominate import Pooled
from shortlist.nominate.pools import make_pools
from shortlist.pipeline import load_recommender, parse_recipe
from shortlist.pipeline.registry import TYPES
from shortlist.testing import check_stage
from shortlist.train import train

A, F, N, WIDTH = 40, 6, 3, 5
HISTORIES = [[1, 2, 3], [], [7], list(range(20))]


def pooled(gate="item", hard=False, outcome="gaussian", overlap=False, users=None, **settings):
    torch.manual_seed(0)
    pools = torch.from_numpy(make_pools(A, N, seed=0).matrix.T.copy()) if hard else None
    if pools is not None and overlap:
        pools = pools | pools.roll(1, 1) & (torch.arange(A) % 2 == 0)[:, None]
    d = F if users is None else F + users.shape[1]
    model = PoolMixture(
        TwoTowerExperts(feature_subsets(d, N, 4, seed=0), A, WIDTH),
        Gate(gate, N, A, d, pools=pools),
        outcome=outcome,
    )
    with torch.no_grad():
        model.experts.items.normal_()
        for weights in model.gate.parameters():
            weights.normal_()
    factors, scale = torch.randn(A, F), torch.stack([torch.randn(F), torch.rand(F) + 0.5])
    given = {} if users is None else {"user_features": users}
    return Pooled(model.eval(), factors, scale, **given, **settings)


CASES = {
    "item": {},
    "item, joined lists": {"lists": "nominate"},
    "user and item": {"gate": "user_item"},
    "user and item, joined lists": {"gate": "user_item", "lists": "nominate"},
    "pools": {"gate": "uniform", "hard": True},
    "pools that overlap": {"gate": "uniform", "hard": True, "overlap": True},
    "pools, mixture": {"gate": "item", "hard": True, "overlap": True, "lists": "mixture"},
    "bernoulli": {"outcome": "bernoulli"},
    "bernoulli pools": {"gate": "uniform", "hard": True, "outcome": "bernoulli"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_way_of_making_lists_is_a_stage(case):
    stage = pooled(**case)
    check_stage(stage, A)
    check_stage(Pooled.build(stage.settings(), stage.tensors()), A)
    check_stage(pooled(**case, score_pool=True, exclude_seen=True, limit=7), A)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_with_room_for_all_items_lists_equal_exhaustive_ones(case):
    """Four times 40 items per place reach the whole catalogue, so that weighing again is exact too."""
    stage, query = pooled(**case, limit=A), Query.of(HISTORIES)
    found = stage.nominate(query)
    contexts = stage.contexts(query)
    if stage.made == "pool":
        predictions = stage.model.linked(stage.model.experts.all(contexts))
        every = predictions.masked_fill(~stage.model.gate.pools, -torch.inf).amax(2)
    else:
        every = stage.model.mixture_scores(contexts)
    values, items = every.sort(1, descending=True)
    assert torch.equal(found.items, items)
    assert torch.allclose(found.scores, values, atol=1e-5)
    assert torch.allclose(stage.item_columns(query, items)["score"], values, atol=1e-5)


@pytest.mark.parametrize("gate", ["item", "user_item"])
def test_joined_lists_hold_the_best_of_every_nominator_by_weight_times_prediction(gate):
    stage, query = pooled(gate=gate, lists="nominate", per_nominator=4, limit=N * 4), Query.of(HISTORIES)
    found = stage.nominate(query)
    contexts = stage.contexts(query)
    weights, predictions = stage.model.gate.all(contexts).exp(), stage.model.experts.all(contexts)
    value = (weights * predictions).masked_fill(predictions <= 0, -torch.inf)
    expected = value.topk(4, 1)
    for row in range(len(HISTORIES)):
        best = expected.indices[row][expected.values[row] > -torch.inf]
        if gate == "item":  # the other one fetches sixteen items of each nominator before it weighs them
            assert set(best.tolist()) <= set(found.items[row].tolist())
    mean = (
        (weights * predictions)
        .sum(2)
        .gather(1, found.items.clamp(min=0))
        .masked_fill(found.items < 0, -torch.inf)
    )
    assert bool((mean.diff(dim=1)[mean[:, 1:] > -torch.inf] <= 1e-6).all())


def test_weights_of_contexts_are_exact_when_enough_items_are_fetched():
    stage, query = pooled(gate="user_item", lists="nominate", per_nominator=10, limit=30), Query.of(HISTORIES)
    contexts = stage.contexts(query)
    own = stage.model.gate.all(contexts).exp() * stage.model.experts.all(contexts)
    items, _ = stage._nominated(contexts, None)
    for n in range(N):
        expected = own[..., n].sort(1, descending=True).indices[:, :10]
        positive = own[..., n].gather(1, expected) > 0
        assert torch.equal(items[:, n][positive], expected[positive])


def test_seen_items_are_left_out_before_the_best_are_taken():
    for case in CASES.values():
        stage, query = pooled(**case, exclude_seen=True, limit=12), Query.of(HISTORIES)
        found = stage.nominate(query)
        for row, history in enumerate(HISTORIES):
            assert not set(history) & set(found.items[row].tolist())
            assert int((found.items[row] >= 0).sum()) == 12


def test_a_request_is_the_standardised_mean_of_its_last_items_and_its_user():
    users = torch.tensor([[1.0, -1.0], [0.5, 2.0]])
    stage = pooled(users=users, last=2)
    query = Query.of([[5, 1, 2], []], users=[1, -1])
    contexts = stage.contexts(query)
    mean = (stage.factors[1] + stage.factors[2]) / 2
    assert torch.allclose(contexts[0, :F], (mean - stage.scale[0]) / stage.scale[1], atol=1e-6)
    assert contexts[0, F:].tolist() == [0.5, 2.0]
    assert contexts[1].tolist() == [0.0] * (F + 2)
    check_stage(stage, A)


def test_hard_pools_are_offered_to_other_stages_and_gates_have_none():
    assert (pooled(gate="uniform", hard=True).pools.matrix == make_pools(A, N, seed=0).matrix).all()
    assert pooled().pools is None


def test_an_approximate_index_for_each_pool_is_stored_and_tuned():
    pytest.importorskip("faiss")
    stage = pooled(gate="uniform", hard=True, index="hnsw", limit=5)
    again = Pooled.build(stage.settings(), stage.tensors())
    query = Query.of(HISTORIES)
    assert [one.kind for one in again.built] == ["hnsw"] * N
    assert torch.equal(again.nominate(query).items, stage.nominate(query).items)
    exact = pooled(gate="uniform", hard=True, limit=5).nominate(query).items
    assert torch.equal(stage.nominate(query).items, exact)
    again.check_catalogue(A, ())


def test_the_joint_index_is_one_inner_product():
    stage, query = pooled(limit=5), Query.of(HISTORIES)
    users = stage.model.experts.users(stage.contexts(query)).flatten(1)
    items, _ = search(stage.built[0].vectors, users, 5)
    assert stage.built[0].width == N * WIDTH
    assert torch.equal(items, stage.nominate(query).items)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match='lists = "pool" needs hard pools'):
        pooled(lists="pool")
    with pytest.raises(ConfigError, match="expected two-tower experts, got FrozenTable"):
        Pooled(
            PoolMixture(FrozenTable(torch.zeros(A, 1)), Gate("item", 1, A)),
            torch.zeros(A, F),
            torch.ones(2, F),
        )
    stage = pooled()
    with pytest.raises(ArtifactError, match=r"expected the shape \[41, 'any'\]"):
        stage.check_catalogue(A + 1, ())
    with pytest.raises(ArtifactError, match="the experts read 6 features, requests have 8"):
        pooled(users=None).renewed(user_features=torch.zeros(3, 2)).check_catalogue(A, ())
    broken = {name: one for name, one in stage.tensors().items() if name != "mixture.gate.items"}
    with pytest.raises(ArtifactError, match=r"gate\.items is missing"):
        Pooled.build(stage.settings(), broken)
    hard = pooled(gate="uniform", hard=True)
    empty = {**hard.tensors(), "mixture.gate.pools": torch.zeros(A, N, dtype=torch.bool)}
    with pytest.raises(ArtifactError, match="an item is in no pool"):
        Pooled.build(hard.settings(), empty)


RECIPE = """
name = "shared-out"
pipeline = "{pipeline}"

[stages.pooled]
type = "pooled"
{stage}

[stages.pooled.train]
n_nominators = 3
width = 8
factors = 12
epochs = 3
negatives = 4
{train}

[stages.seen]
type = "seen"
"""


@pytest.mark.parametrize(
    "settings",
    ['allocation = "gate"', 'allocation = "distilled"', 'allocation = "random"'],
)
def test_a_recipe_trains_it_and_its_bundle_answers_the_same(world, tmp_path, settings):
    text = RECIPE.format(pipeline="pooled % 30 >> seen", stage="last = 20", train=settings)
    trained = train(parse_recipe(text), world, tmp_path / "bundle", refit=False)
    loaded = load_recommender(tmp_path / "bundle")
    query = Query.of([[1, 2, 3], [], [5]], users=[0, -1, 2])
    one, other = (bundle.pipeline(query, Candidates.none(3)) for bundle in (trained, loaded))
    assert torch.equal(one.items, other.items)
    assert torch.allclose(one.scores, other.scores)
    assert int(one.valid.sum(1).min()) >= 25


@pytest.mark.parametrize("gate", ["user_item", "user", "features", "uniform"])
def test_every_gate_can_be_trained(world, gate):
    lines = f'gate = "{gate}"\noutcome = "bernoulli"\nobjective = "item-likelihood"\ninstances = 2000'
    text = RECIPE.format(pipeline="pooled % 30 >> seen", stage="", train=lines)
    trained = train(parse_recipe(text), world, refit=False)
    check_stage(trained.pipeline.nominators[0], len(world.items))


def test_other_nominators_use_its_pools(world, tmp_path):
    text = (
        RECIPE.format(
            pipeline="pooled % 30 + head % 5 + tail % 5 + popular % 5 >> seen",
            stage="",
            train='allocation = "random"',
        )
        + """
[stages.popular]
type = "popular"

[stages.head]
type = "in-pool"
by = "popular"
pools = "pooled"

[stages.tail]
type = "in-pool"
by = "popular"
pools = "pooled"
number = 2
"""
    )
    train(parse_recipe(text), world, tmp_path / "bundle", refit=False)
    stages = {one.title: one for one in load_recommender(tmp_path / "bundle").pipeline.nominators}
    pools = stages["pooled"].pools.matrix
    query = Query.of([[1, 2, 3], []])
    for name, number in (("head", 0), ("tail", 2)):
        items = stages[name].nominate(query).items
        assert items.shape[1] == 5
        assert pools[number][items].all()


def test_a_file_of_pools_restricts_a_nominator(world, tmp_path):
    path = tmp_path / "pools.jsonl"
    ids = [world.items.id(row) for row in range(0, 40, 4)]
    path.write_text(json.dumps({"nominator": "few", "items": ids}) + "\n")
    text = f'''
name = "few"
pipeline = "popular % 5 + few % 6"
[stages.popular]
type = "popular"
[stages.few]
type = "in-pool"
by = "popular"
pools = "{path}"
'''
    few = train(parse_recipe(text), world, refit=False).pipeline.nominators[1]
    items = few.nominate(Query.of([[1, 2]])).items
    assert items.shape == (1, 6)
    assert bool((items % 4 == 0).all())
    assert int(items.max()) < 40


def test_a_pool_of_nothing_is_refused_with_what_to_do(world):
    more = '\n[stages.head]\ntype = "in-pool"\nby = "popular"\npools = "{}"\n\n[stages.popular]\ntype = "popular"\n'
    for pools, by_first, message in (
        ("pooled", False, "expected the name of a nominator before this stage in the recipe, got 'popular'"),
        ("pooled", True, "'pooled' has no item pools; train it with allocation"),
        ("", True, "expected a stage before this one that has pools, or a file; got none"),
    ):
        stages = more.format(pools)
        if by_first:
            head, popular = stages.split("\n\n")
            stages = "\n" + popular + head
        text = (
            RECIPE.format(pipeline="pooled % 30 + head + popular >> seen", stage="", train="epochs = 1")
            + stages
        )
        with pytest.raises(ConfigError, match=message):
            train(parse_recipe(text.replace("epochs = 3\n", "")), world, refit=False)


def test_types_are_registered():
    assert TYPES["pooled"] is Pooled
