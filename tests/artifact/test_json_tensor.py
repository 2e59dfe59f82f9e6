"""Plain values travel as bytes, and what is wrong with them is said."""

import pytest
import torch

from shortlist.artifact.json_tensor import spelled, told, under
from shortlist.errors import ArtifactError


def test_values_come_back_as_they_were():
    values = {"sizes": [1, 2], "word": "größe", "rate": 0.5, "no": None}
    assert told({"about": spelled(values)}, "about", "ranker") == values


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "ranker: its tensors lack 'about'; make the artifact again"),
        ({"about": torch.tensor([1, 2], dtype=torch.uint8)}, "not what a stage wrote"),
        ({"about": torch.tensor([1.5])}, "not what a stage wrote"),
        ({"about": torch.tensor([300])}, "not what a stage wrote"),
        ({"about": torch.tensor([[1, 2]])}, "not what a stage wrote"),
        ({"about": torch.frombuffer(bytearray(b"[" * 100_000), dtype=torch.uint8)}, "not what a stage wrote"),
        ({"about": torch.frombuffer(bytearray(b"[1]"), dtype=torch.uint8)}, "must hold names and values"),
    ],
)
def test_what_no_stage_wrote_is_refused(tensors, said):
    with pytest.raises(ArtifactError, match=said):
        told(tensors, "about", "ranker")


def test_tensors_are_found_by_how_their_names_begin():
    one = torch.zeros(1)
    assert under("a.", {"a.b": one, "b.a.c": one, "a.": one}) == {"b": one, "": one}
