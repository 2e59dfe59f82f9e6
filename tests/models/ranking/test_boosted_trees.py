"""Boosted trees as tensors: every row reaches the leaf found by hand; damaged trees are refused."""

from math import isnan

import pytest
import torch

from shortlist.errors import ArtifactError, DataError
from shortlist.models.ranking import boosted_trees as boosted
from shortlist.models.ranking.boosted_trees import Trees


def trees_of_three() -> Trees:
    """One tree of depth 2, one of a single leaf, one of depth 1."""
    rows = [
        (1, 0.5, 1, 4, 0.0),
        (0, -1.0, 2, 3, 0.0),
        (0, 0.0, 2, 2, 1.0),
        (0, 0.0, 3, 3, 2.0),
        (0, 0.0, 4, 4, 4.0),
        (0, 0.0, 5, 5, 0.25),
        (2, 3.0, 7, 8, 0.0),
        (0, 0.0, 7, 7, -8.0),
        (0, 0.0, 8, 8, 8.0),
    ]
    feature, threshold, left, right, value = (
        torch.tensor(one, dtype=torch.float64) for one in zip(*rows, strict=True)
    )
    nan_left = torch.tensor([False, True] * 4 + [True])
    return Trees(
        feature.long(), threshold, left.long(), right.long(), value, torch.tensor([0, 5, 6]), nan_left
    )


def naive(trees: Trees, row: list[float]) -> float:
    total = 0.0
    for root in trees.roots.tolist():
        at = root
        while trees.left[at] != at:
            value = row[int(trees.feature[at])]
            goes_left = trees.nan_left[at] if isnan(value) else value <= trees.threshold[at]
            at = int(trees.left[at] if goes_left else trees.right[at])
        total += float(trees.value[at])
    return total


def test_every_row_has_the_sum_found_by_hand():
    trees, rows = trees_of_three(), torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0)) * 3
    sums = trees(rows)
    assert sums.shape == (5, 7)
    assert sums.dtype == torch.float32
    assert sums.flatten().tolist() == [naive(trees, row) for row in rows.reshape(-1, 3).double().tolist()]
    assert trees.depth == 2


def test_torch_and_numba_sums_are_equal():
    trees, rows = trees_of_three(), torch.randn(40, 3, generator=torch.Generator().manual_seed(1)) * 3
    assert torch.equal(trees.torch_sums(rows.double()).float(), trees(rows))


def test_rows_with_too_few_features_are_refused():
    with pytest.raises(DataError, match="expected 3 features or more, got 2"):
        trees_of_three()(torch.zeros(4, 2))
    assert trees_of_three()(torch.zeros(4, 5)).tolist() == [trees_of_three()(torch.zeros(3)).item()] * 4


def test_threshold_goes_left_and_nan_to_its_own_side():
    trees = trees_of_three()
    rows = torch.tensor([[-1.0, 0.5, 3.0], [0.0, 0.6, 3.1], [torch.nan, torch.nan, torch.nan]])
    assert trees(rows).tolist() == [1.0 + 0.25 - 8, 4.0 + 0.25 + 8, 4.0 + 0.25 + 8]
    assert trees(rows[2]).item() == naive(trees, rows[2].tolist())
    assert torch.equal(trees.torch_sums(rows.double()).float(), trees(rows))


def test_nan_counts_as_0_in_trees_that_say_nothing_of_it():
    stored = {name: one for name, one in trees_of_three().tensors().items() if name != "nan_left"}
    with pytest.raises(ArtifactError, match="tensor 'nan_left' is missing"):
        Trees.build(stored, 3)
    trees = Trees.build(stored, 3, nan_is_0=True)
    assert trees(torch.full((3,), torch.nan)).item() == trees(torch.zeros(3)).item()


@pytest.mark.parametrize("cells", [1, 10, 1000])
def test_blocks_have_the_sums_of_the_whole(cells, monkeypatch):
    trees, rows = trees_of_three(), torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 3
    whole = trees(rows)
    monkeypatch.setattr(boosted, "CELLS", cells)
    assert torch.equal(trees(rows), whole)


def test_no_rows_and_no_trees_have_sums():
    assert trees_of_three()(torch.empty(2, 0, 3)).shape == (2, 0)
    nothing = torch.empty(0, dtype=torch.int64)
    bare = Trees(nothing, nothing.double(), nothing, nothing, nothing.double(), nothing, nothing.bool())
    assert bare(torch.ones(4, 3)).tolist() == [0, 0, 0, 0]
    assert Trees.build(bare.tensors(), 0).depth == 0


def test_trees_are_the_same_when_rebuilt():
    trees, rows = trees_of_three(), torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Trees.build(trees.tensors(), 3)(rows), trees(rows))


@pytest.mark.parametrize(
    ("name", "at", "to"),
    [
        ("left", 0, 0),
        ("left", 1, 0),
        ("right", 6, 99),
        ("right", 6, -1),
        ("right", 2, 3),
        ("feature", 0, 3),
        ("feature", 0, -1),
        ("roots", 0, 9),
        ("roots", 0, -1),
    ],
)
def test_nodes_with_invalid_children_are_refused(name, at, to):
    tensors = {key: one.clone() for key, one in trees_of_three().tensors().items()}
    tensors[name][at] = to
    with pytest.raises(ArtifactError, match="a node has an invalid child; the artifact is damaged"):
        Trees.build(tensors, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"left": torch.zeros(3, dtype=torch.int64)},
        {"left": trees_of_three().left.double()},
        {"roots": torch.zeros(1, 1, dtype=torch.int64)},
        {"value": torch.zeros(2, 2)},
        {"nan_left": torch.zeros(9)},
    ],
)
def test_tensors_of_another_shape_are_refused(change):
    with pytest.raises(ArtifactError, match="the artifact is damaged"):
        Trees.build({**trees_of_three().tensors(), **change}, 3)


def test_missing_tensor_is_named():
    with pytest.raises(ArtifactError, match="tensor 'threshold' is missing"):
        Trees.build({name: one for name, one in trees_of_three().tensors().items() if name != "threshold"}, 3)
