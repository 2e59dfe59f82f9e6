import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.index.tree.shape import TreeShape
from shortlist.train.tree.samplers.beam_sampler import BeamSampler, model_targets
from tests.train.tree.test_sampler import check, seeded
from tests.train.tree.test_tree_sampler import heaped, largest, random_scores, reader


def slow_search(shape, scores, user, beam):
    """The candidates of beam search at each level, level -> sorted nodes."""
    scored, kept = {}, [0]
    for level in range(1, shape.height + 1):
        scored[level] = [child for node in kept for child in shape.children(level - 1, node)]
        kept = sorted(scored[level], key=lambda node: -scores[level][user, node].item())[:beam]
    return scored


@pytest.mark.parametrize(
    ("n", "branch", "beam"), [(100, 2, 7), (100, 3, 10), (513, 8, 5), (40, 2, 60), (9, 3, 1)]
)
def test_candidates_are_those_of_beam_search_and_the_path(n, branch, beam):
    shape = TreeShape(n, branch)
    levels = tuple(range(1, shape.height + 1))
    leaves = torch.randint(0, n, (12,), generator=seeded(1))
    leaves[0] = n - 1
    scores = random_scores(shape, seed=n, users=12)
    sampled = BeamSampler(beam).sample(shape, levels, leaves, seeded(), reader(scores))
    check(sampled, leaves, shape, levels)
    assert (sampled.logw == 0).all()
    for user in range(12):
        scored = slow_search(shape, scores, user, beam)
        for column, level in enumerate(levels):
            kept = sampled.nodes[user, column][sampled.valid[user, column]].tolist()
            positive = shape.ancestor(int(leaves[user]), level)
            assert sorted(kept) == sorted({*scored[level], positive})


def test_only_requested_levels_are_returned_and_none_below_is_scored():
    shape = TreeShape(256, 2)
    asked = []

    def score(level, nodes):
        asked.append(level)
        return -nodes.float()

    sampled = BeamSampler(8).sample(shape, (3, 5, 6), torch.arange(4), seeded(), score)
    assert asked == [4, 5]
    assert sampled.nodes.shape == (4, 3, 17)
    assert sampled.valid.sum(2)[0].tolist() == [8, 16, 16]


def test_a_beam_wider_than_the_tree_needs_no_scores():
    sampled = BeamSampler(50).sample(TreeShape(40, 2), (5, 6), torch.arange(40), seeded())
    assert sampled.valid.sum(2).tolist() == [[20, 40]] * 40


def slow_targets(shape, scores, user, leaf):
    """1 at a level if going down from there to the best child each time ends at the leaf."""
    found = []
    for level in range(1, shape.height + 1):
        node = shape.ancestor(leaf, level)
        for below in range(level, shape.height):
            node = max(
                shape.children(below, node), key=lambda child, j=below: scores[j + 1][user, child].item()
            )
        found.append(float(node == leaf))
    return found


@pytest.mark.parametrize(("n", "branch"), [(16, 2), (37, 2), (50, 3), (65, 8)])
def test_model_targets_follow_the_best_child_down_to_the_leaf(n, branch):
    shape = TreeShape(n, branch)
    levels = tuple(range(1, shape.height + 1))
    scores = random_scores(shape, seed=n, users=n)
    leaves = torch.arange(n)
    found = model_targets(reader(scores), shape, levels, leaves)
    assert found.dtype == torch.float32
    assert found.tolist() == [slow_targets(shape, scores, user, user) for user in range(n)]
    some = (1, shape.height) if shape.height > 1 else (1,)
    picked = found[:, [0, -1]] if shape.height > 1 else found
    assert torch.equal(model_targets(reader(scores), shape, some, leaves), picked)
    assert (model_targets(reader(scores), shape, (shape.height,), leaves) == 1).all()


def test_with_max_heap_scores_model_targets_equal_strict_labels():
    shape = TreeShape(27, 3)
    leaf = torch.randn(1, 27, generator=seeded(3))
    scores = heaped(shape, leaf, largest)
    found = model_targets(reader(scores), shape, (1, 2, 3), torch.arange(27))
    for item in range(27):
        for column, level in enumerate((1, 2, 3)):
            below = list(shape.leaves(level, shape.ancestor(item, level)))
            assert found[item, column].item() == float(leaf[0, item] == leaf[0, below].max())


def test_equal_children_all_count_as_the_best():
    shape = TreeShape(8, 2)
    found = model_targets(lambda level, nodes: torch.zeros(nodes.shape), shape, (1, 2, 3), torch.arange(8))
    assert (found == 1).all()


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="beam must be"):
        BeamSampler(0)
    with pytest.raises(ConfigError, match="needs scores"):
        BeamSampler(2).sample(TreeShape(16, 2), (2, 3, 4), torch.tensor([0]), seeded())
