"""What only ScaNN has: files of its own. `test_kinds` holds the rest."""

import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.index import make_index, search
from tests.index.worlds import grouped, recall

pytest.importorskip("scann", reason="scann is not installed: pip install 'shortlist[scann]'")
scann = pytest.importorskip("shortlist.index.scann_index")


def test_looking_further_finds_more_and_nothing_is_made_anew():
    items, queries = grouped(asked=40)
    truth, _ = search(items, queries, 10)
    index = make_index("scann", items, nprobe=1, refine=1)
    wide = index.tuned(nprobe=12, refine=20)
    assert wide.inner is index.inner
    assert recall(index.search(queries, 10)[0], truth) < recall(wide.search(queries, 10)[0], truth)
    assert recall(wide.search(queries, 10)[0], truth) > 0.95


@pytest.mark.parametrize("name", ["scann_docids.pkl", "../scann_config.pb", "a/b.npy"])
def test_files_that_could_be_code_or_lie_elsewhere_are_refused(name):
    index = make_index("scann", grouped()[0])
    with pytest.raises(ArtifactError, match="is no file that ScaNN may read"):
        scann.ScannIndex.build(index.settings(), {**index.tensors(), name: torch.zeros(1, dtype=torch.uint8)})


def test_files_that_are_cut_are_named():
    index = make_index("scann", grouped()[0])
    with pytest.raises(ArtifactError, match="its files are none of ScaNN"):
        scann.ScannIndex.build(index.settings(), {"scann_config.pb": torch.zeros(4, dtype=torch.uint8)})
