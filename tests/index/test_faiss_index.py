"""What only the indexes of faiss have: bytes read where they lie, one thread, knobs. `test_kinds` holds the rest."""

from pathlib import Path

import pytest
import torch

from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError, ConfigError
from shortlist.index import make_index, packed_index, search, unpacked_index
from tests.index.worlds import grouped, recall

faiss = pytest.importorskip("faiss", reason="faiss is not installed")
ann = pytest.importorskip("shortlist.index.faiss_index")


def big_arrays(inner):
    """Where the large arrays of an index of faiss begin."""
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
    """The file that an address of this process is mapped from."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(one, 16) for one in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split(maxsplit=5)[-1]
    return ""


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="only Linux tells what is mapped")
@pytest.mark.parametrize("kind", list(ann.KINDS))
def test_the_large_arrays_of_an_opened_index_are_those_of_the_file(kind, tmp_path):
    items, queries = grouped()
    index = make_index(kind, items)
    save(tmp_path / "m", "stage", {"w.safetensors": packed_index(index)}, Lineage())
    back = unpacked_index(load(tmp_path / "m").tensors("w.safetensors"))
    expected = index.search(queries, 10)
    for address in big_arrays(back.inner):
        assert file_of(address) == str(tmp_path / "m" / "w.safetensors")
    for address in big_arrays(index.inner):
        assert file_of(address) != str(tmp_path / "m" / "w.safetensors")
    del index
    assert torch.equal(back.search(queries, 10)[0], expected[0])


def test_bytes_that_are_no_index_or_another_are_named():
    index = make_index("flat", grouped()[0])
    with pytest.raises(ArtifactError, match="its bytes are no index of faiss"):
        ann.FlatIndex.build(index.settings(), {ann.BYTES: torch.zeros(100, dtype=torch.uint8)})
    with pytest.raises(ArtifactError, match="expected 7 vectors of width 16, its bytes hold 1200 of 16"):
        ann.FlatIndex.build({**index.settings(), "n_items": 7}, index.tensors())


@pytest.mark.parametrize(
    ("kind", "few", "many"),
    [
        ("hnsw", {"ef": 10}, {"ef": 400}),
        ("ivf", {"nprobe": 1}, {"nprobe": 30}),
        ("ivf-pq", {"nprobe": 2, "refine": 1}, {"nprobe": 30, "refine": 10}),
        ("residual", {"nprobe": 2, "refine": 1}, {"nprobe": 30, "refine": 30}),
    ],
)
def test_an_index_that_looks_further_finds_more_and_is_not_made_anew(kind, few, many):
    items, queries = grouped(asked=40)
    truth, _ = search(items, queries, 10)
    index = make_index(kind, items, **few)
    wide = index.tuned(**many)
    assert wide.inner is index.inner
    assert recall(index.search(queries, 10)[0], truth) < recall(wide.search(queries, 10)[0], truth)
    assert recall(wide.search(queries, 10)[0], truth) >= 0.95
    with pytest.raises(ConfigError, match="knows no wings"):
        index.tuned(wings=2)


@pytest.mark.parametrize("kind", ["ivf-pq", "residual"])
def test_codes_alone_take_less_and_know_less(kind):
    items, queries = grouped()
    truth, _ = search(items, queries, 10)
    whole, codes = (make_index(kind, items, nlist=4, nprobe=4, refine=refine) for refine in (4, 0))
    assert codes.tensors()[ann.BYTES].numel() < whole.tensors()[ann.BYTES].numel() / 2
    assert 0.1 < recall(codes.search(queries, 10)[0], truth) <= recall(whole.search(queries, 10)[0], truth)


def test_one_list_is_no_partition():
    items, queries = grouped()
    index = make_index("residual", items, nlist=1, refine=30)
    assert index.most == 1
    assert recall(index.search(queries, 10)[0], search(items, queries, 10)[0]) > 0.9
    bare = make_index("residual", items, nlist=1, refine=0)
    assert bare.search(queries, 10)[0].shape == (12, 10)


def test_items_nobody_points_at_are_found_when_all_are_asked_for():
    items, queries = grouped(n_items=600, asked=2)
    items[300:] *= 1e-3  # by product these are no one's neighbours
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


@pytest.mark.parametrize("kind", list(ann.KINDS))
def test_making_an_index_says_nothing(kind, capfd):
    make_index(kind, grouped(n_items=300)[0])
    told = capfd.readouterr()
    assert told.out == told.err == ""
