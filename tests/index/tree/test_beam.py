"""Beam search compared with loops over lists, and its properties."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError, DataError
from shortlist.index.tree import TreeIndex, exhaustive, grow, search
from shortlist.index.tree.beam import SORTED, top
from shortlist.models.nodes import ScorerConfig, make_scorer
from tests.index.tree.tabular import Rows, leaf_scores, no_histories, random_pairs, random_rows, rows_index

SHAPES = [(1, 2), (2, 2), (3, 4), (7, 2), (16, 2), (17, 2), (40, 3), (125, 5), (64, 8)]


def log_sigmoid(score):
    return torch.nn.functional.logsigmoid(torch.tensor(score)).item()


def slow_beam(index, user, k, beam, excluded=(), allowed=None, first=1, path=False):
    """Reference search of one user: (items, beams), beams as lists of nodes by level."""
    shape, items = index.tree.shape, index.tree.item_of_leaf.tolist()
    row, values = index.scorer.table[user].tolist(), {}
    good = [item >= 0 and (allowed is None or bool(allowed[item])) for item in items]
    first = min(first, shape.height)
    nodes, beams = list(range(shape.sizes[first])), []
    for level in range(first, shape.height + 1):
        nodes = [i for i in nodes if any(good[leaf] for leaf in shape.leaves(level, i))]
        for i in nodes:
            score = row[shape.offsets[level] + i]
            above = values.get((level - 1, i // shape.branch), 0.0)
            values[level, i] = log_sigmoid(score) + above if path else score
        if level == shape.height:
            nodes = [i for i in nodes if items[i] not in excluded]
        best = sorted(nodes, key=lambda i, level=level: (-values[level, i], i))
        beams.append(sorted(best[:beam]))
        if level == shape.height:
            return [items[leaf] for leaf in best[:k]], beams
        nodes = [child for i in beams[-1] for child in shape.children(level, i)]
    raise AssertionError


def filled(items, k):
    return items + [-1] * (k - len(items))


def assert_same(one, other):
    assert torch.equal(one.items, other.items)
    torch.testing.assert_close(one.scores, other.scores)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(2, 6),
    st.integers(1, 70),
    st.integers(1, 30),
    st.integers(0, 5),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_search_equals_the_reference(n, branch, beam, k, ties, spare, skip, seed):
    index = random_rows(3, n, branch, seed, spare, ties)
    generator = torch.Generator().manual_seed(seed)
    allowed = torch.rand(n, generator=generator) < 0.7
    exclude = torch.randint(-1, n, (3, 4), generator=generator)
    found = search(index, no_histories(3), k, beam, exclude, allowed, skip=skip)
    for user in range(3):
        items, _ = slow_beam(index, user, k, beam, exclude[user].tolist(), allowed)
        assert found.items[user].tolist() == filled(items, k)
    assert torch.equal(found.scores.isneginf(), found.items < 0)


@pytest.mark.parametrize(("n", "branch"), SHAPES)
@pytest.mark.parametrize("ties", [0, 3])
def test_t03_full_width_beam_equals_exhaustive_search(n, branch, ties):
    index = random_rows(4, n, branch, seed=n, ties=ties)
    expected = leaf_scores(index).sort(dim=1, descending=True, stable=True)
    for k in (1, 5, n, n + 3):
        for skip in (True, False):
            wide = search(index, no_histories(4), k, beam=n, skip=skip)
            assert_same(wide, exhaustive(index, no_histories(4), k))
        items = index.tree.item_of_leaf[expected.indices[:, :k]]
        assert torch.equal(wide.items[:, :n], items.long())
        assert torch.equal(wide.scores[:, :n], expected.values[:, :k])


@pytest.mark.parametrize(("n", "branch"), SHAPES)
@pytest.mark.parametrize("beam", [1, 2, 3, 8, 20])
def test_t04_skipping_levels_within_the_beam_changes_nothing(n, branch, beam):
    for spare, ties in itertools.product((0.0, 0.5), (0, 4)):
        index = random_rows(5, n, branch, seed=beam, spare=spare, ties=ties)
        assert_same(
            search(index, no_histories(5), 10, beam), search(index, no_histories(5), 10, beam, skip=False)
        )


@pytest.mark.parametrize("seed", range(20))
def test_t05_an_item_is_found_if_every_ancestor_is_among_the_best_candidates(seed):
    """Proposition 4.3 of the companion paper, the leaf counted among the levels."""
    n, branch, beam = 50 + seed, 2 + seed % 4, 1 + seed % 9
    index = random_rows(2, n, branch, seed)
    shape = index.tree.shape
    found = search(index, no_histories(2), beam, beam, skip=False)
    for user in range(2):
        _, beams = slow_beam(index, user, beam, beam)
        for item in range(n):
            leaf = int(index.tree.leaf_of_item[item])
            holds = []
            for level in range(1, shape.height + 1):
                above = beams[level - 2] if level > 1 else [0]
                candidates = [child for i in above for child in shape.children(level - 1, i)]
                scores = index.scorer.table[user, shape.offsets[level] + torch.tensor(candidates)]
                edge = scores.sort(descending=True).values[min(beam, len(scores)) - 1]
                own = index.scorer.table[user, shape.offsets[level] + shape.ancestor(leaf, level)]
                holds.append(bool(own >= edge))
            # An ancestor lost at a higher level is not among the candidates here; the item is already lost.
            assert (item in found.items[user].tolist()) == all(holds)


@pytest.mark.parametrize("history", ["ancestor", "item"])
@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_t06_results_do_not_depend_on_batch_or_padding(history, leaf_vectors):
    index = random_pairs(30, 3, 1, leaf_vectors, history, spare=0.2)
    asked = torch.randint(0, 30, (6, 5), generator=torch.Generator().manual_seed(2))
    whole = search(index, asked, 7, beam=4)
    padded = torch.nn.functional.pad(asked, (9, 0), value=-1)
    assert_same(search(index, padded, 7, beam=4), whole)
    for user in range(6):
        alone = search(index, asked[user : user + 1], 7, beam=4)
        assert torch.equal(alone.items[0], whole.items[user])
        torch.testing.assert_close(alone.scores[0], whole.scores[user])
    turned = search(index, asked.flip(0), 7, beam=4)
    assert torch.equal(turned.items.flip(0), whole.items)


@pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
def test_t06_results_of_trained_scorers_do_not_depend_on_the_batch(kind):
    tree = grow(torch.randperm(40, generator=torch.Generator().manual_seed(0)), 40, 3)
    scorer = make_scorer(ScorerConfig(tree.shape.n_nodes, kind=kind, width=8, spread=1.0), 0).double().eval()
    index = TreeIndex(tree, scorer)
    asked = torch.randint(0, 40, (5, 20), generator=torch.Generator().manual_seed(2))
    whole = search(index, asked, 6, beam=4)
    for user in range(5):
        alone = search(index, torch.nn.functional.pad(asked[user : user + 1], (3, 0), value=-1), 6, beam=4)
        assert torch.equal(alone.items[0], whole.items[user])
    assert_same(search(index, asked, 6, beam=40), exhaustive(index, asked, 6))


def subtree(shape, eta, join):
    """Scores by level from leaf probabilities, root first."""
    nodes = [(level, i) for level, size in enumerate(shape.sizes) for i in range(size)]
    return torch.tensor([[join([eta[leaf] for leaf in shape.leaves(*node)]) for node in nodes]])


def test_t07_subtree_sums_mislead_a_beam_and_maxima_do_not():
    """Appendix C.1 of the DTR paper; items are counted from 1 there."""
    eta = [0.21, 0, 0.12, 0.18, 0.19, 0, 0.16, 0.14]
    shape = grow(torch.arange(8), 8).shape
    sums = rows_index(subtree(shape, eta, sum), 8)
    torch.testing.assert_close(sums.scorer.table[0, 1:7], torch.tensor([0.51, 0.49, 0.21, 0.30, 0.19, 0.30]))
    assert set(search(sums, no_histories(1), 3, beam=3).items[0].tolist()) == {0, 3, 6}
    best = rows_index(subtree(shape, eta, max), 8)
    assert set(search(best, no_histories(1), 3, beam=3).items[0].tolist()) == {0, 3, 4}


@pytest.mark.parametrize("seed", range(30))
def test_t08_scores_increasing_in_the_subtree_maximum_find_the_best_items(seed):
    generator = torch.Generator().manual_seed(seed)
    n, branch = 5 + 7 * seed, 2 + seed % 5
    shape = grow(torch.arange(n), n, branch).shape
    eta = torch.rand(n, generator=generator).double()
    table = subtree(shape, eta.tolist(), max).double()
    for level, size in enumerate(shape.sizes):  # another rising function for every level
        at = slice(shape.offsets[level], shape.offsets[level] + size)
        table[:, at] = (table[:, at] * (1 + level)).exp() - 3 * level
    index = rows_index(table, n, branch)
    for k in (1, 2, 5, n):
        expected = eta.sort(descending=True).indices[:k]
        assert search(index, no_histories(1), k, beam=k).items[0, :n].tolist() == expected.tolist()


def one_step_label(eta):
    """The probability mass below the better child: how often the next step of a path is the better one."""
    half = len(eta) // 2
    return sum(max(eta[:half], eta[half:], key=max)) if half else eta[0]


def test_t09_one_step_labels_lose_the_best_item_and_strict_labels_keep_it():
    """Level 1 as one-step labels expect it, (.30, .45), and as strict ones do, (.30, .25)."""
    eta = [0.30, 0, 0, 0.05, 0.25, 0.20, 0.10, 0.10]
    shape = grow(torch.arange(8), 8).shape
    strict = subtree(shape, eta, max)
    torch.testing.assert_close(strict[0, 1:3], torch.tensor([0.30, 0.25]))
    assert search(rows_index(strict, 8), no_histories(1), 1, beam=1).items.tolist() == [[0]]
    one_step = subtree(shape, eta, one_step_label)
    torch.testing.assert_close(one_step[0, 1:3], torch.tensor([0.30, 0.45]))
    assert search(rows_index(one_step, 8), no_histories(1), 1, beam=1).items.tolist() == [[4]]


@pytest.mark.parametrize(("n", "branch"), SHAPES)
def test_path_values_at_full_width_are_sums_over_every_path(n, branch):
    index = random_rows(3, n, branch, seed=4, spare=0.2)
    shape, table = index.tree.shape, index.scorer.table
    first = min(1, shape.height)
    leaves = index.tree.leaf_of_item.long()
    steps = [table[:, shape.offsets[j] + shape.ancestor(leaves, j)] for j in range(first, shape.height + 1)]
    values = torch.stack(steps).sigmoid().double().prod(0).log()  # [U, n]
    expected = values.sort(dim=1, descending=True)
    for found in (
        search(index, no_histories(3), n, shape.n, path=True),
        exhaustive(index, no_histories(3), n, path=True),
    ):
        assert torch.equal(found.items, expected.indices)
        torch.testing.assert_close(found.scores.double(), expected.values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("trained", [1, 2, 4])
def test_path_values_skip_untrained_levels(trained):
    index = replace(random_rows(3, 45, 3, seed=6), first=trained)
    found = search(index, no_histories(3), 6, 45, path=True)
    assert torch.equal(found.items, exhaustive(index, no_histories(3), 6, path=True).items)
    for user in range(3):
        assert found.items[user].tolist() == slow_beam(index, user, 6, 45, first=trained, path=True)[0]


@pytest.mark.parametrize("beam", [1, 3, 7])
def test_beam_search_by_path_values_equals_the_reference(beam):
    index = random_rows(4, 45, 3, seed=5, spare=0.1)
    found = search(index, no_histories(4), 6, beam, path=True, trace=True)
    for user in range(4):
        items, beams = slow_beam(index, user, 6, beam, path=True)
        assert found.items[user].tolist() == filled(items, 6)
        assert [[i for i in level.nodes[user].tolist() if i >= 0] for level in found.beams] == beams


@pytest.mark.parametrize("path", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 7, 50, 1000])
def test_exhaustive_search_does_not_depend_on_the_chunk(chunk, path):
    index = random_rows(3, 50, 3, seed=1, spare=0.3, ties=6)
    generator = torch.Generator().manual_seed(3)
    exclude = torch.randint(-1, 60, (3, 9), generator=generator)
    allowed = torch.rand(50, generator=generator) < 0.8
    whole = exhaustive(index, no_histories(3), 12, exclude, allowed, path)
    parts = exhaustive(index, no_histories(3), 12, exclude, allowed, path, chunk)
    assert torch.equal(parts.items, whole.items)
    assert torch.equal(parts.scores, whole.scores)


def test_ties_go_to_the_lower_leaf_at_every_level():
    index = rows_index(torch.zeros(2, 31), 16)
    for beam in (1, 3, 4, 16):
        assert search(index, no_histories(2), 2, beam).items.tolist() == [[0, 1]] * 2
    assert (
        exhaustive(index, no_histories(2), 20, chunk=3).items.tolist() == [[*range(16), -1, -1, -1, -1]] * 2
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_k_and_beam_may_exceed_the_catalogue(n):
    index = random_rows(2, n, branch=4)
    for found in (search(index, no_histories(2), 5, beam=100), search(index, no_histories(2), 5, beam=1)):
        assert (found.items >= 0).sum(1).tolist() == [n, n]
        assert found.items[:, n:].tolist() == [[-1] * (5 - n)] * 2
        assert bool(found.scores[:, n:].isneginf().all())


def test_a_tree_of_one_item_is_its_root():
    index = rows_index(torch.tensor([[0.5]]), 1)
    for path in (False, True):
        found = search(index, no_histories(1), 1, path=path, trace=True)
        assert found.items.tolist() == [[0]]
        assert [level.level for level in found.beams] == [0]
        assert_same(exhaustive(index, no_histories(1), 1, path=path), found)


NO_HISTORY = [torch.empty(2, 0, dtype=torch.int64), torch.full((2, 4), -1), torch.full((2, 2), 77)]


@pytest.mark.parametrize("history", NO_HISTORY)
@pytest.mark.parametrize("kind", ["ancestor", "item"])
def test_unknown_items_count_as_padding(history, kind):
    index = random_pairs(20, history=kind)
    expected = search(index, no_histories(2), 5, beam=3)
    assert_same(search(index, history, 5, beam=3), expected)
    known = torch.tensor([[3, 4], [5, 6]])
    mixed = torch.cat([history, known], 1)
    assert_same(search(index, mixed, 5, beam=3), search(index, known, 5, beam=3))


def test_an_empty_batch_gives_an_empty_result():
    index = random_pairs(20)
    whole = [exhaustive(index, no_histories(0), 5, path=path) for path in (False, True)]
    for found in [search(index, no_histories(0), 5, beam=3), *whole]:
        assert found.items.shape == found.scores.shape == (0, 5)


def test_excluded_items_are_replaced_by_the_next_best():
    index = random_rows(2, 30, seed=3)
    plain = search(index, no_histories(2), 10, beam=30)
    exclude = torch.cat([plain.items[:, :3], torch.tensor([[-1, 99], [99, -1]])], 1)
    for found in (
        search(index, no_histories(2), 7, 30, exclude),
        exhaustive(index, no_histories(2), 7, exclude),
    ):
        assert torch.equal(found.items, plain.items[:, 3:])
    everything = torch.arange(30).expand(2, -1)
    assert search(index, no_histories(2), 3, 5, everything).items.tolist() == [[-1] * 3] * 2
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert torch.equal(search(index, no_histories(2), 10, 30, nothing).items, plain.items)


def test_nodes_without_an_allowed_item_take_no_place_in_a_beam():
    index = random_rows(1, 64, seed=6, order=torch.arange(64))
    allowed = torch.zeros(64, dtype=torch.bool)
    allowed[[5, 40, 41]] = True
    for beam in (1, 2, 3):
        found = search(index, no_histories(1), 4, beam, allowed=allowed, skip=False, trace=True)
        assert set(found.items[0].tolist()) <= {5, 40, 41, -1}
        assert (found.items[0] >= 0).sum() >= min(beam, 2)
        for level in found.beams:
            width = index.tree.shape.width(level.level)
            assert set(level.nodes[0].tolist()) <= {5 // width, 40 // width, -1} | (
                {41} if width == 1 else set()
            )
            assert int(level.n_scored) <= 3
    nothing = search(index, no_histories(1), 2, 2, allowed=torch.zeros(64, dtype=torch.bool))
    assert nothing.items.tolist() == [[-1, -1]]


def test_free_slots_are_never_found():
    tree = grow(torch.arange(3), 3, 2, spare=4.0)
    index = TreeIndex(tree, Rows(torch.where(torch.rand(1, tree.shape.n_nodes) < 2, 1.0, 0.0)))
    for beam in (1, 2, 15):
        assert search(index, no_histories(1), 15, beam).items[0, :1].tolist() == [0]
        assert set(search(index, no_histories(1), 15, beam).items[0].tolist()) <= {0, 1, 2, -1}


@pytest.mark.parametrize("beam", [1, 4, 10])
def test_the_trace_has_the_kept_nodes_of_every_scored_level(beam):
    index = random_rows(3, 60, 3, seed=2, spare=0.2)
    shape = index.tree.shape
    found = search(index, no_histories(3), 5, beam, skip=False, trace=True)
    assert [level.level for level in found.beams] == list(range(1, shape.height + 1))
    for user in range(3):
        _, beams = slow_beam(index, user, 5, beam)
        for level, kept in zip(found.beams, beams, strict=True):
            nodes = level.nodes[user][level.nodes[user] >= 0]
            assert nodes.tolist() == kept
            rows = shape.offsets[level.level] + nodes
            assert torch.equal(level.scores[user, : len(kept)], index.scorer.table[user, rows])
    short = search(index, no_histories(3), 5, beam, trace=True)
    assert [level.level for level in short.beams] == list(range(shape.start(beam), shape.height + 1))
    assert torch.equal(short.beams[-1].nodes, found.beams[-1].nodes)
    assert search(index, no_histories(3), 5, beam).beams == ()


def test_the_trace_counts_the_scored_nodes():
    found = search(random_rows(2, 64), no_histories(2), 5, beam=4, trace=True)
    assert [level.n_scored.tolist() for level in found.beams] == [[8, 8]] * 4  # levels 3 to 6
    excluded = search(random_rows(2, 64), no_histories(2), 5, 4, torch.arange(64).expand(2, -1), trace=True)
    assert excluded.beams[-1].n_scored.tolist() == [8, 8]  # excluding saves no work
    assert excluded.beams[-1].nodes.tolist() == [[-1] * 4] * 2


@pytest.mark.parametrize("width", [10, SORTED, SORTED + 1, 20_000])
@pytest.mark.parametrize("k", [1, 7, 30_000])
def test_top_equals_a_stable_sort(width, k):
    generator = torch.Generator().manual_seed(width)
    scores = torch.randint(-5, 5, (3, width), generator=generator).float() / 3
    scores[0, ::3], scores[1, ::2], scores[2, 1::2] = float("-inf"), -0.0, 1e-38
    expected = scores.sort(dim=1, descending=True, stable=True)
    values, at = top(scores, k)
    assert torch.equal(at, expected.indices[:, :k])
    assert torch.equal(values, expected.values[:, :k])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("leaf_vectors", ["slot", "item"])
def test_gpu_search_does_not_synchronise_and_equals_the_cpu(leaf_vectors):
    here = random_pairs(300, 3, 1, leaf_vectors, spare=0.2)
    scorer = make_scorer(ScorerConfig(here.scorer.config.n_rows, kind="linear"), 0).eval()
    history = torch.randint(-1, 300, (4, 9), generator=torch.Generator().manual_seed(2))
    found = []
    for device in ("cpu", "cuda"):
        index = TreeIndex(here.tree.to(device), scorer.to(device), leaf_vectors)
        asked, allowed = history.to(device), torch.arange(300, device=device) % 3 > 0
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        found.append(
            [search(index, asked, 9, 10, asked, allowed), exhaustive(index, asked, 9, asked, allowed)]
        )
        torch.cuda.set_sync_debug_mode("default")
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.items, other.items.cpu())


@pytest.mark.parametrize(("k", "beam"), [(0, 5), (5, 0), (-1, 5)])
def test_k_and_beam_below_one_are_refused(k, beam):
    with pytest.raises(ConfigError, match="at least 1"):
        search(random_rows(1, 5), no_histories(1), k, beam)


@pytest.mark.parametrize("history", [torch.zeros(3), torch.zeros(2, 3)])
def test_a_history_of_another_shape_or_dtype_is_refused(history):
    with pytest.raises(DataError, match="histories must be items"):
        search(random_rows(1, 5), history, 1)
