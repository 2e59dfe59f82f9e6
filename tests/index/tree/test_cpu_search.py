"""The compiled CPU search equals the torch form, on any tree and with every option."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.index.tree import TreeIndex, beam, cpu_search, delete, exhaustive, grow, n_rows, search, warmup
from shortlist.models.nodes import ScorerConfig, make_scorer

CLOSE = {"atol": 1e-6, "rtol": 1e-6}
TINY = {"width": 3, "hidden": 2, "layers": (5, 4, 3), "windows": (3, 1, 2), "spread": 1.0}


def random_index(n, branch=2, seed=0, leaf_vectors="slot", history="ancestor", spare=0.0, pool="sum"):
    """A tree in random order with an untrained attention scorer."""
    tree = grow(torch.randperm(n, generator=torch.Generator().manual_seed(seed)), n, branch, spare)
    rows = n_rows(tree.shape, n, leaf_vectors)
    config = ScorerConfig(rows, n, history=history, pool=pool, **TINY)
    return TreeIndex(tree, make_scorer(config, seed).eval(), leaf_vectors)


def torch_form(*args, **kwargs):
    """The same search without the compiled form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "_kernel_inputs", lambda index, history: None)
        return search(*args, **kwargs)


def assert_same(one, other):
    """Equal scores up to 1e-6 and equal items; items with such close scores may swap."""
    torch.testing.assert_close(one.scores, other.scores, **CLOSE)
    steps = (one.scores[:, 1:] - one.scores[:, :-1]).abs() <= 2e-6
    edge = torch.ones(len(one.scores), 1, dtype=torch.bool)  # the last may be as near to one left out
    near = torch.cat([steps, edge], 1) | torch.cat([~edge, steps], 1)  # [U, k]
    assert not ((one.items != other.items) & ~near).any()


def histories(users, length, n, generator):
    """Histories with padding and unknown items; the first one is empty."""
    made = torch.randint(-2, n + 3, (users, length), generator=generator)
    made[:1] = -1
    return made


# The same examples every time: inside the tree a near tie at the edge of a beam changes what is found below it.
@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.integers(1, 70),
    st.integers(2, 8),
    st.integers(1, 80),
    st.integers(1, 80),
    st.integers(0, 9),
    st.sampled_from([0.0, 0.4, 3.0]),
    st.sampled_from(["slot", "item"]),
    st.sampled_from(["ancestor", "item"]),
    st.sampled_from(["sum", "mean"]),
    st.sampled_from(["", "exclude", "allowed", "both"]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_compiled_search_equals_the_torch_form(
    n, branch, width, k, length, spare, vectors, history, pool, limits, skip, path, seed
):
    index = random_index(n, branch, seed, vectors, history, spare, pool)
    generator = torch.Generator().manual_seed(seed)
    past = histories(3, length, n, generator)
    exclude = histories(3, 4, n, generator) if limits in ("exclude", "both") else None
    allowed = torch.rand(n, generator=generator) < 0.5 if limits in ("allowed", "both") else None
    chosen = (index, past, k, width, exclude, allowed, skip, path)
    assert_same(search(*chosen), torch_form(*chosen))


@pytest.mark.parametrize("path", [False, True])
def test_t03_full_width_compiled_beam_equals_exhaustive_search(path):
    index = random_index(123, 3, spare=0.2)
    past = torch.randint(0, 123, (4, 6))
    assert_same(search(index, past, 20, 200, path=path), exhaustive(index, past, 20, path=path))


@pytest.mark.parametrize("history", ["ancestor", "item"])
def test_ties_go_to_the_lower_node(history):
    index = random_index(60, 2, history=history, leaf_vectors="item")
    with torch.no_grad():
        index.scorer.nodes.weight.mul_(2).round_().div_(4)
        index.scorer.nodes.weight[:, 1:] = 0
    past = torch.randint(0, 60, (5, 6))
    for width in (1, 2, 5, 8, 30):
        found = search(index, past, 40, width)
        assert_same(found, torch_form(index, past, 40, width))
    assert len(found.scores.unique()) < found.scores.numel() / 2  # there were ties


def test_t06_compiled_results_do_not_depend_on_the_batch():
    index = random_index(200, 4)
    past, exclude = torch.randint(0, 200, (7, 6)), torch.randint(0, 200, (7, 3))
    together = search(index, past, 10, 8, exclude)
    for user in range(7):
        alone = search(index, past[user : user + 1], 10, 8, exclude[user : user + 1])
        assert torch.equal(alone.items[0], together.items[user])
        assert torch.equal(alone.scores[0], together.scores[user])


def test_compiled_search_is_used_for_inference_on_the_cpu_only(monkeypatch):
    calls, inner = [], beam.search_on_cpu
    monkeypatch.setattr(beam, "search_on_cpu", lambda *args: (calls.append(1), inner(*args))[1])
    index, past = random_index(20), torch.randint(0, 20, (2, 6))
    search(index, past, 5, 4)
    assert calls == [1]
    search(index, past, 5, 4, trace=True)
    index.scorer.train()
    search(index, past, 5, 4)
    index.scorer.eval().double()
    search(index, past, 5, 4)
    assert calls == [1]


def test_short_and_long_histories_of_both_integer_types():
    index = random_index(30)
    for length in (0, 2, 6, 11):
        past = torch.randint(0, 30, (2, length))
        found = search(index, past, 5, 4)
        assert_same(found, torch_form(index, past, 5, 4))
        assert_same(found, search(index, past.int(), 5, 4))
    assert search(index, past[:0], 5, 4).items.shape == (0, 5)


def test_strided_histories_are_accepted():
    index = random_index(30)
    wide = torch.randint(0, 30, (6, 9)).T  # not contiguous
    found = search(index, wide[:, :5], 5, 4, wide[:, 3:])
    assert_same(found, torch_form(index, wide[:, :5], 5, 4, wide[:, 3:]))


def test_a_tree_without_items_finds_nothing():
    index = delete(random_index(5), torch.arange(5))
    found = search(index, torch.zeros(2, 3, dtype=torch.int64), 3, 2)
    assert (found.items == -1).all()
    assert found.scores.isneginf().all()


@given(
    st.lists(st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 2.0, np.inf]), max_size=40), st.integers(1, 45)
)
def test_best_equals_a_stable_sort(values, count):
    values = np.array(values, np.float32)
    there = np.flatnonzero(values > -np.inf)
    oracle = there[np.argsort(-values[there], kind="stable")[:count]]
    assert cpu_search._best(values, count).tolist() == sorted(oracle.tolist())


def test_nan_does_not_hang_the_search():
    index = random_index(50)
    with torch.no_grad():
        index.scorer.nodes.weight[::3] = float("nan")
    assert search(index, torch.randint(0, 50, (2, 6)), 50, 8).items.shape == (2, 50)


def test_warmup_compiles_everything():
    warmup()
    compiled = len(cpu_search.beam_search.signatures)
    index = random_index(20, leaf_vectors="item", history="item", spare=0.2)
    search(index, torch.randint(0, 20, (2, 6)), 5, 4, torch.zeros(2, 1, dtype=torch.int64), path=True)
    assert len(cpu_search.beam_search.signatures) == compiled
