"""Plain values stored as JSON bytes; damage is reported."""

import pytest
import torch

from shortlist.artifact.json_tensor import json_from_tensor, json_to_tensor, with_prefix, without_prefix
from shortlist.errors import ArtifactError


def as_bytes(text):
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def test_values_survive_the_round_trip():
    values = {"sizes": [1, 2], "word": "größe", "rate": 0.5, "no": None}
    assert json_from_tensor({"about": json_to_tensor(values)}, "about", "ranker") == values


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "ranker: tensor 'about' is missing; make the artifact again"),
        ({"about": torch.tensor([1, 2], dtype=torch.uint8)}, "ranker: 'about' is not JSON"),
        ({"about": torch.tensor([1.5])}, "is not JSON"),
        ({"about": torch.tensor([300])}, "is not JSON"),
        ({"about": torch.tensor([[1, 2]])}, "is not JSON"),
        ({"about": as_bytes(b"[" * 100_000)}, "is not JSON"),
        ({"about": as_bytes(b"[1]")}, r"must be a JSON object, got \[1\]"),
    ],
)
def test_damaged_values_are_refused(tensors, message):
    with pytest.raises(ArtifactError, match=message):
        json_from_tensor(tensors, "about", "ranker")


def test_tensors_are_selected_by_the_prefix_of_their_names():
    one = torch.zeros(1)
    assert without_prefix("a.", {"a.b": one, "b.a.c": one, "a.": one}) == {"b": one, "": one}
    assert with_prefix("a.", {"b": one}) == {"a.b": one}
