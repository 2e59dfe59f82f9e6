"""Memory mapping, threads and search parameters of FAISS indexes; `test_registry` runs the contract on every kind."""

from pathlib import Path

import pytest
import torch

from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError, ConfigError
from shortlist.index import index_from_tensors, index_to_tensors, make_index, search
from tests.index.worlds import grouped, recall

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
faiss_index = pytest.importorskip("shortlist.index.faiss_index")


def big_arrays(inner):
    """Addresses of the large arrays of a FAISS index."""
    if isinstance(inner, faiss.IndexRefineFlat):
        return [*big_arrays(faiss.downcast_index(inner.base_index)), *big_arrays(inner.refine_index)]
    if isinstance(inner, faiss.IndexHNSW):
        return [int(inner.hnsw.neighbors.data()), *big_arrays(inner.storage)]
    if isinstance(inner, faiss.IndexIVF):
        lists = inner.invlists
        full = next(n for n in range(inner.nlist) if lists.list_size(n))
        return [int(lists.get_codes(full)), int(lists.get_ids(full))]
    return [int(faiss.downcast_index(inner).codes.data())]


def file_of(address):
    """The file that an address of this process is mapped from, empty if none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(end, 16) for end in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split(maxsplit=5)[-1]
    return ""


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="only Linux lists memory maps")
@pytest.mark.parametrize("kind", list(faiss_index.KINDS))
def test_an_opened_index_reads_the_mapped_file(kind, tmp_path):
    items, queries = grouped()
    index = make_index(kind, items)
    save(tmp_path / "m", "stage", {"w.safetensors": index_to_tensors(index)}, Lineage())
    back = index_from_tensors(load(tmp_path / "m").tensors("w.safetensors"))
    expected = index.search(queries, 10)
    for address in big_arrays(back.inner):
        assert file_of(address) == str(tmp_path / "m" / "w.safetensors")
    for address in big_arrays(index.inner):
        assert file_of(address) != str(tmp_path / "m" / "w.safetensors")
    del index
    assert torch.equal(back.search(queries, 10)[0], expected[0])


def test_damaged_or_mismatched_bytes_are_refused():
    index = make_index("flat", grouped()[0])
    with pytest.raises(ArtifactError, match="its bytes are not a FAISS index"):
        faiss_index.FlatIndex.build(
            index.settings(), {faiss_index.BYTES: torch.zeros(100, dtype=torch.uint8)}
        )
    with pytest.raises(ArtifactError, match="expected 7 vectors of width 16, its bytes hold 1200 of 16"):
        faiss_index.FlatIndex.build({**index.settings(), "n_items": 7}, index.tensors())


@pytest.mark.parametrize(
    ("kind", "few", "many"),
    [
        ("hnsw", {"ef": 10}, {"ef": 400}),
        ("ivf", {"nprobe": 1}, {"nprobe": 30}),
        ("ivf-pq", {"nprobe": 2, "refine": 1}, {"nprobe": 30, "refine": 10}),
        ("residual", {"nprobe": 2, "refine": 1}, {"nprobe": 30, "refine": 30}),
    ],
)
def test_more_search_effort_raises_recall_without_a_rebuild(kind, few, many):
    items, queries = grouped(n_queries=40)
    expected, _ = search(items, queries, 10)
    index = make_index(kind, items, **few)
    wide = index.tuned(**many)
    assert wide.inner is index.inner
    assert recall(index.search(queries, 10)[0], expected) < recall(wide.search(queries, 10)[0], expected)
    assert recall(wide.search(queries, 10)[0], expected) >= 0.95
    with pytest.raises(ConfigError, match="unknown key 'wings'"):
        index.tuned(wings=2)


@pytest.mark.parametrize("kind", ["ivf-pq", "residual"])
def test_codes_without_refinement_are_smaller_and_less_accurate(kind):
    items, queries = grouped()
    expected, _ = search(items, queries, 10)
    whole, codes = (make_index(kind, items, nlist=4, nprobe=4, refine=refine) for refine in (4, 0))
    assert codes.tensors()[faiss_index.BYTES].numel() < whole.tensors()[faiss_index.BYTES].numel() / 2
    assert (
        0.1 < recall(codes.search(queries, 10)[0], expected) <= recall(whole.search(queries, 10)[0], expected)
    )


def test_a_single_list_is_searched_exhaustively():
    items, queries = grouped()
    index = make_index("residual", items, nlist=1, refine=30)
    assert index.max_effort == 1
    assert recall(index.search(queries, 10)[0], search(items, queries, 10)[0]) > 0.9
    bare = make_index("residual", items, nlist=1, refine=0)
    assert bare.search(queries, 10)[0].shape == (12, 10)


def test_items_without_incoming_edges_are_found_by_an_exhaustive_search():
    items, queries = grouped(n_items=600, n_queries=2)
    items[300:] *= 1e-3  # short vectors are neighbours of no other item
    index = make_index("hnsw", items, m=2, ef_construction=2, ef=2)
    rows, _ = index.search(queries, 600)
    assert [len(set(row)) for row in rows.tolist()] == [600, 600]
    assert (rows >= 0).all()


def test_searches_run_on_one_thread():
    faiss.omp_set_num_threads(2)
    index = make_index("ivf", grouped()[0])
    assert faiss.omp_get_max_threads() == 1
    faiss.omp_set_num_threads(2)
    index.search(grouped()[1], 5)
    assert faiss.omp_get_max_threads() == 1


@pytest.mark.parametrize("kind", list(faiss_index.KINDS))
def test_building_an_index_prints_nothing(kind, capfd):
    make_index(kind, grouped(n_items=300)[0])
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""
