"""Rows of nodes and of history items."""

import json
from dataclasses import replace

import pytest
import torch

from shortlist.artifact.store import Lineage, load, save
from shortlist.errors import ArtifactError, ConfigError
from shortlist.index.tree import TreeIndex, TreeShape, grow, n_rows, search
from shortlist.models.nodes import ScorerConfig, make_scorer

ORDER = torch.tensor([3, 0, 4, 1, 2])


def index_of(leaf_vectors="slot", history="ancestor", order=ORDER, n_items=5, spare=0.0, **changes):
    tree = grow(order, n_items, 2, spare)
    rows = n_rows(tree.shape, n_items, leaf_vectors)
    config = ScorerConfig(rows, n_items, width=4, history=history, **changes)
    return TreeIndex(tree, make_scorer(config, 0).eval(), leaf_vectors)


def test_rows_of_slots_follow_the_shape():
    index = index_of()  # levels of 1, 2, 3, 5
    assert index.rows(2, torch.tensor([0, 1, 2, 3, 9])).tolist() == [3, 4, 5, 5, 5]
    assert index.rows(3, torch.tensor([[0, 4], [5, 2]])).tolist() == [[6, 10], [10, 8]]
    assert index.level_rows(1).tolist() == [1, 2]
    assert index.level_rows(3).tolist() == [6, 7, 8, 9, 10]


def test_rows_of_items_follow_the_items():
    index = index_of("item")
    assert index.rows(2, torch.tensor([0, 2])).tolist() == [3, 5]
    assert index.rows(3, torch.arange(6)).tolist() == [9, 6, 10, 7, 8, 8]
    assert index.level_rows(3).tolist() == [9, 6, 10, 7, 8]


@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_an_ancestor_history_has_the_nodes_above_its_items(leaf_vectors):
    index = index_of(leaf_vectors, order=ORDER, n_items=7, spare=0.4)
    history = torch.tensor([[-1, 3, 0, 4], [6, 2, 99, 1]])
    for level in range(index.tree.shape.height + 1):
        rows = index.history_rows(level, history)
        for asked, row in zip(history.flatten().tolist(), rows.flatten().tolist(), strict=True):
            leaf = index.tree.leaf_of_item[asked] if 0 <= asked < 7 else torch.tensor(-1)
            above = index.tree.shape.ancestor(leaf.long(), level)
            assert row == (-1 if leaf < 0 else int(index.rows(level, above)))


def test_an_item_history_keeps_items_without_a_leaf():
    index = index_of(history="item", n_items=7)
    history = torch.tensor([[-1, 3, 6, 7, 99]])
    assert index.history_rows(2, history).tolist() == [[-1, 3, 6, -1, -1]]


@pytest.mark.parametrize("history", ["ancestor", "item"])
def test_states_equal_the_state_of_each_level(history):
    index = index_of(history=history)
    asked = torch.tensor([[0, 3, -1], [1, 9, 2]])
    states = index.states(asked)
    for level in range(4):
        for one, other in zip(states(level), index.state(asked, level), strict=True):
            assert torch.equal(one, other)


def test_the_node_table_needs_a_row_per_node():
    shape = TreeShape(5)
    assert n_rows(shape, 9, "slot") == 11
    assert n_rows(shape, 9, "item") == 15
    with pytest.raises(ConfigError, match="slot, item, got 'leaf'"):
        n_rows(shape, 9, "leaf")
    scorer = make_scorer(ScorerConfig(10), 0)
    with pytest.raises(ConfigError, match="needs a node table of 11 rows, the scorer has 10"):
        TreeIndex(grow(ORDER, 5), scorer)
    scorer = make_scorer(ScorerConfig(11, 4, history="item"), 0)
    with pytest.raises(ConfigError, match="has 5 items, the item table of the scorer has 4 rows"):
        TreeIndex(grow(ORDER, 5), scorer)


@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
@pytest.mark.parametrize("kind", ["linear", "attention"])
def test_an_index_round_trips_through_an_artifact(tmp_path, leaf_vectors, kind):
    index = index_of(leaf_vectors, "item", kind=kind)
    parts = {"index.safetensors": index.tensors(), "index.json": json.dumps(index.settings())}
    save(tmp_path / "index", "tree-index", parts, Lineage())
    read = load(tmp_path / "index", "tree-index")
    back = TreeIndex.build(read.json("index.json"), read.tensors("index.safetensors"))
    history = torch.tensor([[0, 1, 4], [2, -1, 3]])
    one, other = search(index, history, 4, beam=2), search(back, history, 4, beam=2)
    assert torch.equal(one.items, other.items)
    assert torch.equal(one.scores, other.scores)
    assert back.settings() == index.settings()


@pytest.mark.parametrize("key", ["leaf_vectors", "tree", "scorer"])
def test_missing_settings_are_refused(key):
    index = index_of()
    settings = {name: value for name, value in index.settings().items() if name != key}
    with pytest.raises(ArtifactError, match=f"lack '{key}'"):
        TreeIndex.build(settings, index.tensors())


def test_mismatched_parts_are_refused():
    index, other = index_of(), index_of("item", n_items=9)
    with pytest.raises(ArtifactError, match="node table of 11 rows"):
        TreeIndex.build(
            index.settings() | {"scorer": other.scorer.settings()},
            index.tensors()
            | {name: tensor for name, tensor in other.tensors().items() if name.startswith("scorer.")},
        )
    with pytest.raises(ArtifactError, match="got 'leaf'"):
        TreeIndex.build(index.settings() | {"leaf_vectors": "leaf"}, index.tensors())
    with pytest.raises(ArtifactError, match="item_of_leaf"):
        TreeIndex.build(index.settings(), {})


def test_levels_above_the_first_trained_one_are_never_scored():
    """A narrow beam starts with the whole first trained level instead of untrained ones."""
    index, history = index_of("item"), torch.tensor([[0, 1, 2]])
    trained = replace(index, first=2)
    assert [beam.level for beam in search(trained, history, 2, beam=1, trace=True).beams] == [2, 3]
    assert [beam.level for beam in search(index, history, 2, beam=1, trace=True).beams] == [1, 2, 3]
    other = index_of("item")
    with torch.no_grad():
        other.scorer.nodes.weight[1:3] += 5.0  # the rows of level 1
    changed = replace(other, first=2)
    for beam in (1, 2, 3):
        assert torch.equal(search(changed, history, 2, beam).items, search(trained, history, 2, beam).items)
    back = TreeIndex.build(json.loads(json.dumps(trained.settings())), trained.tensors())
    assert back.first == 2


def test_an_invalid_first_level_is_refused():
    with pytest.raises(ConfigError, match="between 1 and 3, got 4"):
        replace(index_of(), first=4)
