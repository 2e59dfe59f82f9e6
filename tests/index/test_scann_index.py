"""Files and search parameters of ScaNN; `test_registry` runs the contract on every kind."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.index import make_index, search
from tests.index.worlds import grouped, recall

pytest.importorskip("scann", reason="scann is not installed: pip install 'shortlist[scann]'")
scann = pytest.importorskip("shortlist.index.scann_index")


def test_more_probes_raise_recall_without_a_rebuild():
    items, queries = grouped(n_queries=40)
    expected, _ = search(items, queries, 10)
    index = make_index("scann", items, nprobe=1, refine=1)
    wide = index.tuned(nprobe=12, refine=20)
    assert wide.inner is index.inner
    assert recall(index.search(queries, 10)[0], expected) < recall(wide.search(queries, 10)[0], expected)
    assert recall(wide.search(queries, 10)[0], expected) > 0.95


@pytest.mark.parametrize("name", ["scann_docids.pkl", "../scann_config.pb", "a/b.npy"])
def test_pickles_and_paths_outside_the_folder_are_refused(name):
    index = make_index("scann", grouped()[0])
    with pytest.raises(ArtifactError, match="is not a file that ScaNN may read"):
        scann.ScannIndex.build(index.settings(), {**index.tensors(), name: torch.zeros(1, dtype=torch.uint8)})


def test_damaged_files_are_refused():
    index = make_index("scann", grouped()[0])
    with pytest.raises(ArtifactError, match="its files are not a ScaNN index"):
        scann.ScannIndex.build(index.settings(), {"scann_config.pb": torch.zeros(4, dtype=torch.uint8)})
