import math

import pytest
import torch

from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeShape, search
from shortlist.lab.theory.margin import beam_candidates, level_margins, path_margin
from tests.index.tree.tabular import no_histories, random_rows

INF = float("inf")
both_forms = pytest.mark.parametrize("exclude_self", [False, True])
each_tree = pytest.mark.parametrize(
    ("n", "branch"), [(2, 2), (5, 2), (16, 2), (23, 3), (40, 5), (64, 4), (64, 8)]
)


def scores_of(shape, users, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(users, size, generator=generator, dtype=torch.float64) for size in shape.sizes)


def leaves_of(shape, users, seed=0):
    return torch.randint(shape.n, (users,), generator=torch.Generator().manual_seed(seed))


def walked(shape, scores, beam):
    """Candidates and beam of every level for one user, in plain lists."""
    kept, levels = [0], [([0], [0])]
    for level in range(1, shape.height + 1):
        cand = [child for node in kept for child in shape.children(level - 1, node)]
        cand = [node for node in cand if scores[level][node] > -INF]
        kept = sorted(cand, key=lambda node: (-scores[level][node], node))[:beam]
        levels.append((sorted(cand), kept))
    return levels


def margin_by_lists(shape, scores, leaf, k, beam, cand, exclude_self):
    """The margin by its definition, with plain lists."""
    leads = []
    for level in range(1, shape.height + 1):
        mine, width = shape.ancestor(leaf, level), k if level == shape.height else beam
        others = [node for node in cand[level] if not (exclude_self and node == mine)]
        ranked = sorted((scores[level][node] for node in others), reverse=True)
        few = len(ranked) < width if exclude_self else len(ranked) <= width
        leads.append(INF if few else scores[level][mine] - ranked[width - 1])
    least = min(leads)
    return least, 0 if least == INF else leads.index(least) + 1


@each_tree
@both_forms
@pytest.mark.parametrize(("k", "beam"), [(1, 1), (2, 2), (3, 5), (7, 4)])
@pytest.mark.parametrize("whole", [False, True])
def test_margins_equal_the_definition(n, branch, exclude_self, k, beam, whole):
    shape = TreeShape(n, branch)
    values, leaf = scores_of(shape, 12, seed=n + k), leaves_of(shape, 12, seed=k)
    cand = None if whole else beam_candidates(shape, values, beam)
    found = path_margin(shape, values, leaf, k, beam=beam, cand=cand, exclude_self=exclude_self)
    for user in range(12):
        scores = [one[user].tolist() for one in values]
        lists = (
            [range(size) for size in shape.sizes] if whole else [c for c, _ in walked(shape, scores, beam)]
        )
        expected = margin_by_lists(shape, scores, int(leaf[user]), k, beam, lists, exclude_self)
        assert (found.value[user].item(), int(found.level[user])) == (pytest.approx(expected[0]), expected[1])


@each_tree
@pytest.mark.parametrize("beam", [1, 3, 10])
@pytest.mark.parametrize("ties", [0, 3])
@pytest.mark.parametrize("spare", [0.0, 0.4])
def test_candidates_are_the_nodes_that_search_scores(n, branch, beam, ties, spare):
    index = random_rows(6, n, branch, seed=n, spare=spare, ties=ties)
    values = level_scores(index, no_histories(6))
    cand = beam_candidates(index.tree.shape, values, beam)
    traced = search(index, no_histories(6), 1, beam, skip=False, trace=True)
    for one in traced.beams:
        assert cand[one.level].sum(1).tolist() == one.n_scored.tolist()
    for user in range(6):
        lists = walked(index.tree.shape, [one[user].tolist() for one in values], beam)
        assert [one[user].nonzero()[:, 0].tolist() for one in cand] == [c for c, _ in lists]


@both_forms
@pytest.mark.parametrize(("k", "beam"), [(1, 1), (4, 4), (2, 6), (5, 3)])
@pytest.mark.parametrize("spare", [0.0, 0.5])
def test_i09_search_finds_exactly_the_leaves_with_a_margin_of_at_least_0(exclude_self, k, beam, spare):
    index = random_rows(300, 45, 3, seed=k, spare=spare)
    values = level_scores(index, no_histories(300))
    items = torch.randint(45, (300,), generator=torch.Generator().manual_seed(beam))
    found = search(index, no_histories(300), k, beam).items
    cand = beam_candidates(index.tree.shape, values, beam)
    leaf = index.tree.leaves(items)
    margin = path_margin(index.tree.shape, values, leaf, k, beam=beam, cand=cand, exclude_self=exclude_self)
    there = (found == items[:, None]).any(1)
    assert ((margin.value >= 0) == there).all()
    assert 0 < int(there.sum()) < 300
    if exclude_self:
        assert (margin.value[there] > 0).all()


def test_i10_without_the_leaf_the_sign_is_wrong():
    shape = TreeShape(32, 2)
    values, leaf = scores_of(shape, 500), leaves_of(shape, 500)
    leads = level_margins(shape, values, leaf, 3, cand=beam_candidates(shape, values, 3))
    assert ((leads[:, :-1].amin(1) >= 0) != (leads.amin(1) >= 0)).any()


def test_i11_for_k_1_no_node_leads_itself():
    shape = TreeShape(40, 3)
    values, leaf = scores_of(shape, 200), leaves_of(shape, 200)
    for cand in (None, beam_candidates(shape, values, 1)):
        assert (path_margin(shape, values, leaf, 1, cand=cand, exclude_self=False).value <= 0).all()
    assert (path_margin(shape, values, leaf, 1, cand=cand).value > 0).any()


@both_forms
@each_tree
def test_i12_the_full_level_margin_is_never_larger_and_equal_for_a_wide_beam(n, branch, exclude_self):
    shape = TreeShape(n, branch)
    values, leaf = scores_of(shape, 200, seed=n), leaves_of(shape, 200, seed=n)
    more = {"exclude_self": exclude_self}
    for beam in (1, 2, 5):
        narrow = path_margin(shape, values, leaf, beam, cand=beam_candidates(shape, values, beam), **more)
        assert (path_margin(shape, values, leaf, beam, **more).value <= narrow.value).all()
    wide = shape.sizes[-2]
    same = path_margin(shape, values, leaf, 2, beam=wide, cand=beam_candidates(shape, values, wide), **more)
    assert torch.equal(path_margin(shape, values, leaf, 2, beam=wide, **more).value, same.value)


@both_forms
def test_i13_the_full_level_margin_is_sqrt_2_lipschitz(exclude_self):
    shape = TreeShape(30, 3)
    values, leaf = scores_of(shape, 400), leaves_of(shape, 400)
    steep = []
    for seed, step in enumerate((1e-3, 0.1, 1.0, 10.0)):
        moved = tuple(a + step * b for a, b in zip(values, scores_of(shape, 400, seed + 9), strict=True))
        far = torch.cat([a - b for a, b in zip(moved, values, strict=True)], 1).norm(dim=1)
        turn = [path_margin(shape, one, leaf, 2, exclude_self=exclude_self).value for one in (values, moved)]
        steep.append(((turn[0] - turn[1]).abs() / far).amax())
    assert max(steep) <= math.sqrt(2) * (1 + 1e-9)


def test_the_constant_sqrt_2_is_attained():
    shape = TreeShape(2)
    values = (torch.zeros(1, 1), torch.tensor([[1.0, 0.0]]))
    moved = (torch.zeros(1, 1), torch.tensor([[0.5, 0.5]]))
    turn = [float(path_margin(shape, one, torch.tensor([0]), 1).value) for one in (values, moved)]
    assert turn[0] - turn[1] == pytest.approx(math.sqrt(2) * math.sqrt(0.5))


def test_w01_the_margin_is_discontinuous():
    shape, leaf = TreeShape(4), torch.tensor([0, 0])
    leaves = torch.tensor([[1.0, 0.0, 101.0, 50.0]] * 2)
    values = (torch.zeros(2, 1), torch.tensor([[0.01, 0.0], [-0.01, 0.0]]), leaves)
    cand = beam_candidates(shape, values, 1)
    assert path_margin(shape, values, leaf, 1, cand=cand, exclude_self=False).value.tolist() == [0.0, -100.0]
    assert cand[2].tolist() == [[True, True, False, False], [False, False, True, True]]
    apart = path_margin(shape, values, leaf, 1, cand=cand)
    assert apart.value.tolist() == [pytest.approx(0.01), -100.0]
    assert apart.level.tolist() == [1, 2]
    assert path_margin(shape, values, leaf, 1, exclude_self=False).value.tolist() == [-100.0, -100.0]


@both_forms
def test_i15_gradients_equal_finite_differences(exclude_self):
    shape, leaf = TreeShape(11, 3), torch.tensor([0, 4, 10])
    values = [one.requires_grad_() for one in scores_of(shape, 3, seed=2)]

    def margin(*scores):
        return path_margin(shape, scores, leaf, 2, exclude_self=exclude_self).value

    assert torch.autograd.gradcheck(margin, tuple(values))
    margin(*values).sum().backward()
    pushes = torch.cat([one.grad for one in values if one.grad is not None], 1)
    assert sorted(pushes[0].tolist())[0 :: len(pushes[0]) - 1] == [-1.0, 1.0]


def test_a_level_within_the_beam_cannot_lose_anything():
    shape = TreeShape(6, 2)
    values, leaf = scores_of(shape, 5), leaves_of(shape, 5)
    for k in (6, 7, 50):
        margin = path_margin(shape, values, leaf, k)
        assert margin.value.tolist() == [INF] * 5
        assert margin.level.tolist() == [0] * 5
    assert (path_margin(shape, values, leaf, 5).value < INF).all()
    assert path_margin(shape, values, leaf, 6, exclude_self=False).value.tolist() == [INF] * 5


def test_a_tree_of_one_item_finds_it():
    margin = path_margin(TreeShape(1), (torch.zeros(2, 1),), torch.tensor([0, -1]), 1)
    assert margin.value.tolist() == [INF, -INF]
    assert margin.level.tolist() == [0, 0]


def test_items_without_a_leaf_have_margin_minus_infinity():
    shape = TreeShape(4)
    values = (torch.zeros(2, 1), torch.zeros(2, 2), torch.tensor([[1.0, -INF, 3.0, 2.0]] * 2))
    margin = path_margin(shape, values, torch.tensor([-1, 1]), 4)
    assert margin.value.tolist() == [-INF, -INF]
    assert margin.level.tolist() == [0, 0]


def test_nan_scores_and_invalid_leaves_are_refused():
    shape = TreeShape(4)
    values = (torch.zeros(2, 1), torch.zeros(2, 2), torch.zeros(2, 4))
    with pytest.raises(ConfigError, match="at least 1"):
        path_margin(shape, values, torch.tensor([0, 0]), 0)
    with pytest.raises(DataError, match="below 4, got 4"):
        path_margin(shape, values, torch.tensor([0, 4]), 1)
    with pytest.raises(DataError, match="scores by level"):
        path_margin(shape, values[1:], torch.tensor([0, 0]), 1)
    values[1][1, 0] = float("nan")
    with pytest.raises(DataError, match="level 1 has a NaN score, first for user 1"):
        path_margin(shape, values, torch.tensor([0, 0]), 1)
