import numpy as np

from shortlist.state.columns import GrowingArray


def test_new_values_are_the_fill_and_old_ones_stay():
    column = GrowingArray(np.int32, -1)
    column.resize(3)
    column.values[:] = [1, 2, 3]
    column.resize(1000)
    assert column.values[:3].tolist() == [1, 2, 3]
    assert (column.values[3:] == -1).all()
    assert column.nbytes >= 4000


def test_at_most_a_fifth_of_the_memory_is_unused_after_it_grew():
    column = GrowingArray("f4", row=(2,))
    for size in range(0, 20_000, 300):
        column.resize(size)
        assert column.values.shape == (size, 2)
        assert not column.values.any()
        assert column.nbytes <= max(8 * size * 1.26, 8 * 64)


def test_reserved_memory_is_not_visible():
    column = GrowingArray(np.uint8)
    column.reserve(500)
    assert len(column) == 0
    before = column.data
    column.resize(500)
    assert column.data is before
