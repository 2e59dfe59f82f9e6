"""The contract of every index kind."""

import sys
from importlib.util import find_spec

import pytest
import torch

from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError, ConfigError, DataError, MissingExtraError
from shortlist.index import INDEXES, index_from_tensors, index_to_tensors, make_index, open_index, search
from shortlist.index.registry import HEADER, index_type
from tests.index.worlds import grouped, recall

NEEDS = {"exact": "numpy", "scann": "scann"}  # all others: faiss
KINDS = [
    pytest.param(
        kind,
        marks=pytest.mark.skipif(
            find_spec(NEEDS.get(kind, "faiss")) is None, reason=f"{NEEDS.get(kind, 'faiss')} is not installed"
        ),
    )
    for kind in INDEXES
]
MIN_RECALL = {
    "exact": 1.0,
    "flat": 1.0,
    "hnsw": 0.9,
    "ivf": 0.5,
    "ivf-pq": 0.5,
    "residual": 0.4,
    "scann": 0.4,
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@every_kind
def test_search_has_the_expected_recall_shape_and_order(kind):
    items, queries = grouped()
    index = make_index(kind, items)
    rows, scores = index.search(queries, 10)
    assert (rows.dtype, scores.dtype, rows.shape, scores.shape) == (
        torch.int64,
        torch.float32,
        (12, 10),
        (12, 10),
    )
    assert (index.kind, index.n_items, index.width) == (kind, 1200, 16)
    assert recall(rows, search(items, queries, 10)[0]) >= MIN_RECALL[kind]
    assert (scores[:, 1:] <= scores[:, :-1]).all()
    torch.testing.assert_close(scores, (queries[:, None] * items[rows]).sum(-1), atol=1e-3, rtol=1e-3)


@every_kind
def test_excluded_rows_are_replaced_by_other_items(kind):
    items, queries = grouped()
    index = make_index(kind, items)
    best, _ = index.search(queries, 60)
    exclude = torch.cat(
        [best[:, ::2], torch.full((12, 5), -1), best[:, :3], torch.full((12, 1), 5000)], dim=1
    )
    rows, scores = index.search(queries, 60, exclude)
    assert not (rows[:, :, None] == exclude[:, None, :]).any()
    assert (rows >= 0).all()
    assert scores.isfinite().all()
    assert [len(set(row)) for row in rows.tolist()] == [60] * 12


@every_kind
def test_k_of_the_whole_catalogue_returns_every_item_that_is_not_excluded(kind):
    items, queries = grouped(n_items=400, n_queries=3)
    index = make_index(kind, items)
    exclude = torch.tensor([[0, 1, 2, 3], [7, 7, 7, -1], [-1, -1, -1, -1]])
    rows, scores = index.search(queries, 1000, exclude)
    assert rows.shape == scores.shape == (3, 400)
    for own, excluded in zip(rows.tolist(), exclude.tolist(), strict=True):
        left = set(range(400)) - set(excluded)
        assert set(own[: len(left)]) == left
        assert own[len(left) :] == [-1] * (400 - len(left))
    assert torch.equal(scores == -torch.inf, rows < 0)


@every_kind
@pytest.mark.parametrize("count", [0, 1, 3, 255])
def test_small_catalogues_are_searched_exactly(kind, count):
    items, queries = grouped(n_items=count or 1)
    items = items[:count]
    rows, scores = make_index(kind, items).search(queries, 5)
    expected = search(items, queries, 5)
    assert torch.equal(rows, expected[0])
    torch.testing.assert_close(scores, expected[1])


@every_kind
def test_an_opened_index_gives_the_results_of_the_saved_one(kind, tmp_path):
    items, queries = grouped()
    index = make_index(kind, items, seed=3)
    save(tmp_path / "m", "stage", {"w.safetensors": index_to_tensors(index)}, Lineage())
    back = index_from_tensors(load(tmp_path / "m").tensors("w.safetensors"))
    assert back is not None
    assert (back.kind, back.settings()) == (index.kind, index.settings())
    assert same(back.search(queries, 20), index.search(queries, 20))
    exclude = index.search(queries, 9)[0]
    assert same(back.search(queries, 20, exclude), index.search(queries, 20, exclude))
    plain = open_index({"kind": kind, **index.settings()}, index.tensors())
    assert same(plain.search(queries, 20), index.search(queries, 20))


@pytest.mark.parametrize("kind", [one for one in KINDS if one.values[0] != "scann"])  # ScaNN takes no seed
def test_the_same_seed_gives_the_same_index(kind):
    items, queries = grouped()
    one, other = (make_index(kind, items, seed=5) for _ in range(2))
    assert same(one.search(queries, 30), other.search(queries, 30))
    assert all(torch.equal(one.tensors()[name], other.tensors()[name]) for name in one.tensors())


@every_kind
def test_a_non_finite_query_returns_nothing_and_does_not_affect_others(kind):
    items, queries = grouped(n_queries=3)
    index = make_index(kind, items)
    expected = index.search(queries, 8)
    queries[1, 2] = torch.nan
    queries[2, 0] = torch.inf
    rows, scores = index.search(queries, 8)
    assert torch.equal(rows[0], expected[0][0])
    assert (rows[1:] == -1).all()
    assert (scores[1:] == -torch.inf).all()


@every_kind
def test_empty_requests_return_empty_results(kind):
    items, queries = grouped()
    index = make_index(kind, items)
    assert index.search(queries[:0], 5)[0].shape == (0, 5)
    assert index.search(queries, 0)[1].shape == (12, 0)
    assert index.search(queries, 2, torch.empty((12, 0), dtype=torch.int64))[0].shape == (12, 2)


@every_kind
def test_invalid_arguments_are_refused_by_name(kind):
    items, queries = grouped()
    index = make_index(kind, items)
    with pytest.raises(DataError, match=r"expected queries \[B, 16\], as wide as the items, got \[12, 15\]"):
        index.search(queries[:, 1:], 5)
    with pytest.raises(DataError, match=r"expected excluded rows \[12, H\].* got \[3, 4\]"):
        index.search(queries, 5, torch.zeros((3, 4), dtype=torch.int64))
    with pytest.raises(ConfigError, match="k must not be negative, got -1"):
        index.search(queries, -1)
    with pytest.raises(DataError, match=r"expected vectors \[N, D\]"):
        make_index(kind, torch.zeros(4))
    with pytest.raises(ConfigError, match="wings"):
        make_index(kind, items, wings=2)
    if kind != "exact":
        with pytest.raises(DataError, match="vector of row 7 is not all finite numbers"):
            make_index(kind, items.index_fill(0, torch.tensor([7]), torch.nan))


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(
        ConfigError, match="one of exact, flat, hnsw, ivf, ivf-pq, residual, scann, got 'tree'"
    ):
        make_index("tree", torch.zeros(3, 2))


@pytest.mark.parametrize(
    ("kind", "package", "extra"), [("hnsw", "faiss", "ann"), ("scann", "scann", "scann")]
)
def test_a_missing_package_is_named_with_the_install_command(monkeypatch, kind, package, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "shortlist.index.faiss_index", raising=False)
    monkeypatch.delitem(sys.modules, "shortlist.index.scann_index", raising=False)
    with pytest.raises(MissingExtraError, match=rf"needs the package '{package}'.*shortlist\[{extra}\]"):
        index_type(kind)


def test_tensors_without_an_index_give_none_and_damaged_ones_are_refused():
    assert index_from_tensors({"model.w": torch.zeros(2)}) is None
    with pytest.raises(ArtifactError, match="is not JSON"):
        index_from_tensors({HEADER: torch.zeros(3, dtype=torch.uint8)})
    header = index_to_tensors(make_index("exact", torch.zeros(3, 2)))[HEADER]
    with pytest.raises(ArtifactError, match=r"does not describe the stored index.*vectors"):
        index_from_tensors({HEADER: header})
