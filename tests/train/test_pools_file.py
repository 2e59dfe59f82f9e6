"""Item pools in a file: what is written is read back, and what cannot be read is named with its line."""

import numpy as np
import pytest

from shortlist.data import Vocabulary
from shortlist.errors import ConfigError, DataError, ShortlistError
from shortlist.nominate.pools import Pools, make_pools
from shortlist.train.preparation.pools_file import read_pool, write_pools

ITEMS = Vocabulary.of([f"item-{row}" for row in range(9)])


def test_written_pools_are_read_back(tmp_path):
    pools = make_pools(9, 3, seed=1)
    write_pools(tmp_path / "pools.jsonl", pools, ("a", "b", "c"), ITEMS)
    for name, mask in zip("abc", pools.matrix, strict=True):
        found, unknown = read_pool(tmp_path / "pools.jsonl", name, ITEMS)
        assert np.array_equal(found, mask)
        assert unknown == 0


def test_whole_numbers_and_unknown_items(tmp_path):
    path = tmp_path / "pools.jsonl"
    path.write_text('\n{"nominator": "a", "items": [3, 1, 900]}\n', "utf-8")
    found, unknown = read_pool(path, "a", Vocabulary.of(range(5)))
    assert np.flatnonzero(found).tolist() == [1, 3]
    assert unknown == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"nominator": "a", "items": ["item-1"]}\n{"nominator": "a"',
            r"pools.jsonl:2: expected JSON such as",
        ),
        ('["item-1"]', r"pools.jsonl:1: expected a nominator and at least one item"),
        ('{"nominator": "a", "items": []}', r"pools.jsonl:1: expected a nominator and at least one item"),
        ('{"nominator": 3, "items": ["item-1"]}', r"pools.jsonl:1: expected a nominator"),
        ('{"nominator": "a", "items": [1.5]}', r"pools.jsonl:1: expected item ids as text or whole numbers"),
        ('{"nominator": "a", "items": ["x"]}', r"pools.jsonl:1: none of 1 items is in the catalogue, .* 'x'"),
        ('{"nominator": "b", "items": ["item-1"]}', r"expected a line for the nominator 'a', got b"),
        ("", r"expected a line for the nominator 'a', got none"),
        (
            '{"nominator": "a", "items": ["item-1"]}\n{"nominator": "a", "items": ["item-2"]}',
            r"pools.jsonl:2: 'a' has a pool in line 1 already",
        ),
    ],
)
def test_bad_files_are_refused_with_their_line(tmp_path, text, message):
    path = tmp_path / "pools.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(ShortlistError, match=message):
        read_pool(path, "a", ITEMS)


def test_missing_file_is_refused_with_an_example(tmp_path):
    with pytest.raises(
        ConfigError, match=r"found no file .*pools.jsonl; write a line for each nominator: \{"
    ):
        read_pool(tmp_path / "pools.jsonl", "a", ITEMS)


def test_names_must_fit_the_pools(tmp_path):
    with pytest.raises(ConfigError, match="expected a name for each of 2 nominators, got 1"):
        write_pools(tmp_path / "pools.jsonl", Pools.of([[0], [1]]), ("a",), Vocabulary.of([1, 2]))


def test_text_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / "pools.jsonl"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(DataError, match="expected text in UTF-8"):
        read_pool(path, "a", ITEMS)
