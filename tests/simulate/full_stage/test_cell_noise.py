"""Noise of cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from shortlist.simulate.full_stage.cell_noise import cell_bits, cell_normals, cell_uniforms


@given(st.integers(0, 2**31), st.integers(0, 9), st.integers(0, 10**6), st.integers(0, 10**6))
def test_cell_is_the_same_in_any_block(seed, stream, user, item) -> None:
    users, items = np.array([user + 1, user]), np.array([item + 3, item])
    whole = cell_bits(seed, stream, users, items)
    assert whole[1, 1] == cell_bits(seed, stream, users[1:], np.array([[item]]))[0, 0]
    assert len(np.unique(whole)) == 4


def test_normals_have_the_normal_distribution_and_rows_and_streams_are_independent() -> None:
    users, items = np.arange(300), np.arange(400)
    first, second = (cell_normals(7, stream, users, items).ravel().astype(float) for stream in (0, 1))
    assert kstest(first, "norm").pvalue > 0.001
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.015
    table = first.reshape(300, 400)
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 0.015
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 0.015


def test_uniforms_never_reach_their_ends() -> None:
    numbers = cell_uniforms(0, 0, np.arange(100), np.arange(1000))
    assert numbers.min() > 0
    assert numbers.max() < 1
