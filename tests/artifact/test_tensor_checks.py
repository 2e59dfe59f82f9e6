"""Checks of tensors from a file."""

import pytest
import torch

from shortlist.artifact.tensor_checks import (
    check_distinct,
    check_floats,
    check_shape,
    check_starts,
    check_whole,
)
from shortlist.errors import ArtifactError

NOTHING = torch.zeros(0, dtype=torch.int64)


def test_what_fits_passes():
    check_shape("a", torch.zeros(3, 2), 3, None)
    check_whole("a", torch.tensor([-1, 4]), -1, 5)
    check_whole("a", NOTHING, 0, 0)
    check_distinct("a", torch.tensor([3, 1, 2]))
    check_floats("a", torch.zeros(1))
    check_starts("a", torch.tensor([0, 2, 2, 5]), 3, 5)
    check_starts("a", torch.tensor([0]), 0, 0)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_shape("a", torch.zeros(3), 3, None), r"expected the shape \[3, 'any'\], got \[3\]"),
        (lambda: check_shape("a", torch.zeros(3), 4), r"expected the shape \[4\], got \[3\]"),
        (lambda: check_whole("a", torch.tensor([0, 5]), 0, 5), "expected values from 0 to 4, got 0 to 5"),
        (lambda: check_whole("a", torch.tensor([-2]), -1, 5), "expected values from -1 to 4, got -2 to -2"),
        (lambda: check_whole("a", torch.tensor([0]), 0, 0), "expected values from 0 to -1, got 0 to 0"),
        (lambda: check_whole("a", torch.zeros(1), 0, 5), "expected integers of 64 bits, got torch.float32"),
        (lambda: check_distinct("a", torch.tensor([1, 1])), "expected every value once"),
        (lambda: check_floats("a", torch.zeros(1).double()), "expected floats of 32 bits, got torch.float64"),
        (
            lambda: check_starts("a", torch.tensor([0, 3, 2, 5]), 3, 5),
            "expected ascending positions from 0 to 5",
        ),
        (lambda: check_starts("a", torch.tensor([1, 5]), 1, 5), "expected ascending positions from 0 to 5"),
        (lambda: check_starts("a", torch.tensor([0, 4]), 1, 5), "expected ascending positions from 0 to 5"),
        (lambda: check_starts("a", NOTHING, 0, 0), r"expected the shape \[1\], got \[0\]"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(check, message):
    with pytest.raises(ArtifactError, match=f"^tensor 'a': {message}"):
        check()
