"""Leaf orders: permutations that keep related items together."""

import numpy as np
import pytest
import torch
from scipy import sparse

from shortlist.errors import DataError
from shortlist.index.tree import grow
from shortlist.index.tree.order import by_category, by_popularity, by_vectors, pifa, project, random_order


def is_permutation(order, n):
    return order.dtype == torch.int64 and torch.equal(order.sort().values, torch.arange(n))


def test_a_random_order_depends_on_its_seed_alone():
    assert is_permutation(random_order(50, 1), 50)
    assert torch.equal(random_order(50, 1), random_order(50, 1))
    assert not torch.equal(random_order(50, 1), random_order(50, 2))


def test_popular_items_come_first_with_ties_by_row():
    assert by_popularity(torch.tensor([2, 5, 2, 9, 5])).tolist() == [3, 1, 4, 0, 2]


def test_categories_in_numeric_order_with_unknown_ones_last():
    categories = torch.tensor([7, -1, 3, 7, 100, -5, 3])
    assert by_category(categories, shuffle=False).tolist() == [2, 6, 0, 3, 4, 1, 5]


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_categories_stay_contiguous_with_unknown_ones_last(seed):
    categories = torch.tensor([7, -1, 3, 7, 100, -5, 3, 12, 12, 7])
    order = by_category(categories, seed)
    assert is_permutation(order, 10)
    assert order[-2:].tolist() == [1, 5]
    runs = torch.unique_consecutive(categories[order][:-2])
    assert sorted(runs.tolist()) == [3, 7, 12, 100]
    within = [order[categories[order] == c].tolist() for c in (3, 7, 12)]
    assert within == [[2, 6], [0, 3, 9], [7, 8]]
    assert torch.equal(by_category(categories, seed), order)


def test_the_category_order_depends_on_the_seed():
    categories = torch.arange(30)
    assert not torch.equal(by_category(categories, 0), by_category(categories, 1))


@pytest.mark.parametrize("categories", [torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64)])
def test_categories_of_another_shape_or_dtype_are_refused(categories):
    with pytest.raises(DataError, match="one integer per item"):
        by_category(categories)


@pytest.mark.parametrize("n", [1, 2, 3, 9, 65])
@pytest.mark.parametrize("branch", [2, 5])
def test_i03_an_order_by_vectors_is_a_permutation(n, branch):
    vectors = torch.randn(n, 6, generator=torch.Generator().manual_seed(n))
    order = by_vectors(vectors, branch, seed=1)
    assert is_permutation(order, n)
    assert torch.equal(by_vectors(3 * vectors, branch, seed=1), order)  # only directions count
    assert grow(order, n, branch).n_live == n


def test_items_without_a_vector_come_last():
    vectors = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
    vectors[[3, 17, 39]] = 0
    order = by_vectors(vectors, 3, seed=2)
    assert is_permutation(order, 40)
    assert set(order[-3:].tolist()) == {3, 17, 39}
    assert is_permutation(by_vectors(torch.zeros(9, 4), 2), 9)


def test_similar_items_share_a_parent():
    vectors = torch.randn(8, 16, generator=torch.Generator().manual_seed(0)).repeat(
        2, 1
    )  # i and i + 8 are alike
    pairs = by_vectors(vectors, 2).view(8, 2) % 8
    assert torch.equal(pairs[:, 0], pairs[:, 1])


@pytest.mark.parametrize(
    "vectors",
    [torch.zeros(0, 3), torch.zeros(3), torch.zeros(3, 2, dtype=torch.int64), torch.full((2, 2), torch.nan)],
)
def test_vectors_of_another_shape_or_dtype_are_refused(vectors):
    with pytest.raises(DataError, match="vectors must be"):
        by_vectors(vectors, 2)


def test_ten_thousand_vectors_are_ordered():
    vectors = torch.randn(10_000, 64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(by_vectors(vectors, 2).sort().values, torch.arange(10_000))


def cosine(vectors, i, j):
    dense = vectors.toarray()
    return dense[i] @ dense[j]


def test_w07_pifa_of_two_items_in_a_hand_computed_case():
    matrix = np.array([[1, 0], [1, 1], [0, 1]])
    assert cosine(pifa(matrix), 0, 1) == pytest.approx(0.5)
    made = pifa(matrix, np.array([[1, 0], [0, 1], [1, 1]]))
    assert made.toarray() == pytest.approx(np.array([[0.7071, 0.7071], [0.4472, 0.8944]]), abs=1e-4)
    assert cosine(made, 0, 1) == pytest.approx(0.9487, abs=1e-4)


def test_i01_products_are_normalized_cooccurrence_counts():
    matrix = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    vectors, counts = pifa(sparse.csr_array(matrix)).toarray(), matrix.sum(0)
    assert (vectors**2).sum(1) == pytest.approx(np.ones(12))
    assert vectors @ vectors.T == pytest.approx(matrix.T @ matrix / np.sqrt(np.outer(counts, counts)))


def test_i02_identity_features_change_nothing():
    matrix = sparse.random_array((20, 9), density=0.3, rng=np.random.default_rng(0), format="csr")
    assert pifa(matrix, np.eye(20)).toarray() == pytest.approx(pifa(matrix).toarray())


def test_an_item_without_events_has_an_empty_vector():
    made = pifa(np.array([[1, 0, 2], [1, 0, 0]])).toarray()
    assert made[1].tolist() == [0, 0]
    assert np.isfinite(made).all()
    with pytest.raises(DataError, match="finite"):
        pifa(np.array([[1.0, np.nan]]))


def test_projection_preserves_products_of_low_rank_vectors():
    rng = np.random.default_rng(0)
    low = rng.standard_normal((40, 3)) @ rng.standard_normal((3, 25))
    short = project(low, width=5, seed=1).double().numpy()
    assert short.shape == (40, 5)
    assert short @ short.T == pytest.approx(low @ low.T, abs=1e-3)
    assert torch.equal(project(low, 5, seed=1), project(low, 5, seed=1))


def test_projection_error_is_that_of_the_singular_values():
    z = sparse.random_array((60, 50), density=0.2, rng=np.random.default_rng(2), format="csr")
    values = np.linalg.svd(z.toarray(), compute_uv=False)
    kept = np.linalg.norm(project(z, width=10).numpy(), axis=0)
    assert kept == pytest.approx(values[:10], rel=0.05)


def test_projection_is_no_wider_than_its_input():
    assert project(np.eye(4), width=64).shape == (4, 4)
