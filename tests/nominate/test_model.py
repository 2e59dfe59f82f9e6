"""ModelNominator nominates the items a model scores best, with every index kind."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Interactions, Query, Vocabulary
from shortlist.errors import ConfigError
from shortlist.grammar import Pipeline
from shortlist.index import INDEXES, top
from shortlist.models.collaborative.ease import EASE
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.nominate import ModelNominator
from shortlist.pipeline import assemble, parse_recipe, to_recipe, to_toml
from shortlist.train.context import TrainContext
from shortlist.train.registry import make_trainer
from tests.worlds import query_of

N_ITEMS = 300
FAISS = [kind for kind in INDEXES if kind not in ("exact", "scann")]


def sasrec(seed: int = 0) -> SASRec:
    torch.manual_seed(seed)
    return SASRec(SASRecConfig(N_ITEMS, max_history=5, width=8, blocks=1, heads=1)).eval()


def ease(seed: int = 0) -> EASE:
    model = EASE(EASE.Config(N_ITEMS))
    generator = torch.Generator().manual_seed(seed)
    for weight in model.state_dict().values():
        weight.copy_(torch.randn(weight.shape, generator=generator))
    return model.eval()


@pytest.fixture
def query() -> Query:
    return query_of([3, 4, 5], [], [17, 290])


def slow(model, query: Query, k: int, exclude_seen: bool) -> list[list[int]]:
    """Sort all scores, then leave out the history."""
    best = []
    with torch.no_grad():
        scores = model.scores(query.history, query.user)
    for own, history in zip(scores.tolist(), query.history.tolist(), strict=True):
        order = sorted(range(N_ITEMS), key=lambda item, own=own: -own[item])
        best.append([item for item in order if not (exclude_seen and item in history)][:k])
    return best


@pytest.mark.parametrize("model", [sasrec(), ease()], ids=["vectors", "scores"])
@pytest.mark.parametrize("exclude_seen", [False, True])
def test_best_items_are_nominated(model, query, exclude_seen):
    found = ModelNominator(model, exclude_seen, limit=7).nominate(query)
    assert found.items.tolist() == slow(model, query, 7, exclude_seen)
    assert found.valid.all()
    with torch.no_grad():
        expected = model.scores(query.history, query.user).gather(1, found.items)
    torch.testing.assert_close(found.scores, expected)


def test_excluded_history_items_take_no_place(query):
    found = ModelNominator(sasrec(), exclude_seen=True, limit=N_ITEMS).nominate(query)
    assert found.valid.sum(1).tolist() == [N_ITEMS - 3, N_ITEMS, N_ITEMS - 2]
    assert (found.scores[~found.valid] == 0).all()


@pytest.mark.parametrize("index", FAISS)
def test_approximate_index_finds_most_of_the_best_and_is_saved_with_the_stage(index, query):
    pytest.importorskip("faiss", reason="faiss is not installed")
    model = sasrec()
    stage = ModelNominator(model, exclude_seen=True, index=index, limit=20, name="m")
    found = stage.nominate(query)
    exact = slow(model, query, 20, exclude_seen=True)
    hits = sum(len(set(a) & set(b)) for a, b in zip(found.items.tolist(), exact, strict=True))
    assert hits > (59 if index == "flat" else 10)
    back = ModelNominator.build(stage.settings(), stage.tensors())
    assert back.index == index
    assert torch.equal(back.nominate(query).items, found.items)
    about = json.loads(bytes(stage.tensors()["index.header"].tolist()))
    assert about["kind"] == index


def test_search_width_changes_without_building_the_index_again(query):
    pytest.importorskip("faiss", reason="faiss is not installed")
    stage = ModelNominator(sasrec(), index="ivf", nprobe=1)
    wide = replace(stage, nprobe=7)
    assert wide.built.inner is stage.built.inner
    assert (stage % 30).built.inner is stage.built.inner
    assert wide.built.params.nprobe == 7
    assert replace(stage, index="exact", nprobe=0).built.kind == "exact"
    with pytest.raises(ConfigError, match="index \"ivf\": unknown key 'ef'; expected one of nlist, nprobe"):
        replace(stage, ef=3)


def test_exact_index_shares_the_vectors_of_the_model():
    stage = ModelNominator(sasrec())
    assert not [name for name in stage.tensors() if name.startswith("index.")]
    assert stage.built.vectors.data_ptr() == stage.model.vectors().data_ptr()


@pytest.mark.parametrize("settings", [{"index": "hnsw"}, {"ef": 4}])
def test_model_without_vectors_refuses_an_index(settings):
    with pytest.raises(ConfigError, match="needs a model whose scores are products of vectors, got EASE"):
        ModelNominator(ease(), **settings)


def test_recipe_keeps_the_index_settings(query):
    pytest.importorskip("faiss", reason="faiss is not installed")
    stage = ModelNominator(sasrec(), True, "hnsw", ef=99, limit=12, name="near")
    text = to_toml(to_recipe(Pipeline((stage,))))
    assert 'type = "sasrec"' in text
    assert 'index = "hnsw"' in text
    assert "ef = 99" in text
    back = assemble(parse_recipe(text), {"near": stage.tensors()})
    again = back.nominators[0]
    assert again.settings() == stage.settings()
    assert torch.equal(again.nominate(query).items, stage.nominate(query).items)


@pytest.mark.parametrize(
    ("line", "message"), [("ef = -1", "ef must lie between"), ("index = 3", "index must be text")]
)
def test_invalid_settings_are_refused_with_their_line(line, message):
    text = f'pipeline = "near % 5"\n\n[stages.near]\ntype = "sasrec"\n{line}\n'
    with pytest.raises(ConfigError, match=rf"pipeline:5: \[stages.near\]: {message}"):
        parse_recipe(text)


@pytest.mark.parametrize("kind", ["item-knn", "last-click"])
def test_counts_of_a_large_catalogue_are_searched_without_the_scores_of_all_items(kind, monkeypatch):
    rng = np.random.default_rng(3)
    events = Interactions.of(np.repeat(np.arange(200), 8), rng.integers(0, 60, 1600) * 9, n_items=600)
    context = TrainContext(events, Catalog.bare(Vocabulary.of(range(600))), "ms")
    stage = make_trainer(kind).fit({"exclude_seen": True, "score_pool": True, "limit": 50}, context)
    query = query_of(*rng.integers(0, 600, (30, 6)).tolist(), [], [9, 9, 18])
    slow_items, slow_scores = dense(stage.model, query, 50)
    monkeypatch.setattr(type(stage.model), "scores", None)
    found = stage.nominate(query)
    assert found.items.tolist() == slow_items.tolist()
    torch.testing.assert_close(found.scores, slow_scores)
    pool = stage.item_columns(query, slow_items)
    torch.testing.assert_close(pool["score"], slow_scores)


def dense(model, query, k):
    """The best items and their scores by the scores of all items."""
    scores, items = top(model.scores(query.history, query.user), k, query.history)
    return items, scores
