"""Typed results become JSON values."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from shortlist.artifact.as_json import as_json


@dataclass(frozen=True)
class Inner:
    share: float
    names: tuple[str, ...]


@dataclass(frozen=True)
class Outer:
    inner: Inner
    by_row: dict[int, Inner]
    path: Path | None = None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (-math.inf, None),
        (1.5, 1.5),
        (True, True),
        ("nan", "nan"),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({"a": math.inf, 2: None}, {"a": None, "2": None}),
        (np.array([[1.0, math.nan]]), [[1.0, None]]),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (torch.tensor([1, 2]), [1, 2]),
        (Path("a/b"), "a/b"),
    ],
    ids=repr,
)
def test_values_become_json_types(value, expected):
    result = as_json(value)
    assert result == expected
    assert type(result) is type(expected)


def test_dataclasses_become_objects_of_their_fields():
    inner = Inner(math.nan, ("a", "b"))
    plain = {"share": None, "names": ["a", "b"]}
    result = as_json(Outer(inner, {3: inner}))
    assert result == {"inner": plain, "by_row": {"3": plain}, "path": None}
    json.dumps(result, allow_nan=False)
