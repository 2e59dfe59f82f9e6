"""Boosted trees as tensors: every row walks as it would by hand, and ways that lead nowhere are refused."""

import pytest
import torch

from shortlist.errors import ArtifactError, DataError
from shortlist.models.ranking import boosted_trees as boosted
from shortlist.models.ranking.boosted_trees import Trees


def grown() -> Trees:
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
    return Trees(feature.long(), threshold, left.long(), right.long(), value, torch.tensor([0, 5, 6]))


def naive(trees: Trees, row: list[float]) -> float:
    total = 0.0
    for root in trees.roots.tolist():
        at = root
        while trees.left[at] != at:
            asked = row[int(trees.feature[at])]
            at = int(trees.left[at] if asked <= trees.threshold[at] else trees.right[at])
        total += float(trees.value[at])
    return total


def test_every_row_walks_as_by_hand():
    trees, rows = grown(), torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0)) * 3
    told = trees(rows)
    assert told.shape == (5, 7)
    assert told.dtype == torch.float32
    assert told.flatten().tolist() == [naive(trees, row) for row in rows.reshape(-1, 3).double().tolist()]
    assert trees.depth == 2


def test_steps_of_all_rows_together_end_where_each_row_walks_alone():
    trees, rows = grown(), torch.randn(40, 3, generator=torch.Generator().manual_seed(1)) * 3
    assert torch.equal(trees.stepped(rows.double()).float(), trees(rows))


def test_rows_with_too_few_features_are_refused():
    with pytest.raises(DataError, match="expected 3 features or more, got 2"):
        grown()(torch.zeros(4, 2))
    assert grown()(torch.zeros(4, 5)).tolist() == [grown()(torch.zeros(3)).item()] * 4


def test_the_threshold_itself_leads_left_and_no_number_is_0():
    trees = grown()
    told = trees(torch.tensor([[-1.0, 0.5, 3.0], [0.0, 0.6, 3.1], [torch.nan, torch.nan, torch.nan]]))
    assert told.tolist() == [1.0 + 0.25 - 8, 4.0 + 0.25 + 8, 2.0 + 0.25 - 8]


@pytest.mark.parametrize("cells", [1, 10, 1000])
def test_parts_have_the_scores_of_the_whole(cells, monkeypatch):
    trees, rows = grown(), torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 3
    whole = trees(rows)
    monkeypatch.setattr(boosted, "CELLS", cells)
    assert torch.equal(trees(rows), whole)


def test_nothing_has_an_answer():
    assert grown()(torch.empty(2, 0, 3)).shape == (2, 0)
    nothing = torch.empty(0, dtype=torch.int64)
    bare = Trees(nothing, nothing.double(), nothing, nothing, nothing.double(), nothing)
    assert bare(torch.ones(4, 3)).tolist() == [0, 0, 0, 0]
    assert Trees.build(bare.tensors(), 0).depth == 0


def test_trees_come_back_from_their_tensors():
    trees, rows = grown(), torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
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
def test_ways_that_lead_nowhere_are_refused(name, at, to):
    tensors = {key: one.clone() for key, one in grown().tensors().items()}
    tensors[name][at] = to
    with pytest.raises(ArtifactError, match="a node leads nowhere; the artifact is damaged"):
        Trees.build(tensors, 3)


@pytest.mark.parametrize(
    "change",
    [
        {"left": torch.zeros(3, dtype=torch.int64)},
        {"left": grown().left.double()},
        {"roots": torch.zeros(1, 1, dtype=torch.int64)},
        {"value": torch.zeros(2, 2)},
    ],
)
def test_tensors_of_another_shape_are_refused(change):
    with pytest.raises(ArtifactError, match="the artifact is damaged"):
        Trees.build({**grown().tensors(), **change}, 3)


def test_a_tensor_that_is_missing_is_named():
    with pytest.raises(ArtifactError, match="lack 'threshold'"):
        Trees.build({name: one for name, one in grown().tensors().items() if name != "threshold"}, 3)
