"""Schemas of requests."""

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from shortlist.serve.schemas import ID_BYTES, LIST_LENGTH, TEXT_SCHEMA, ExplainRequest, Id, RecommendRequest

ID = TypeAdapter(Id)


def is_id(value):
    try:
        return ID.validate_python(value) == value
    except ValidationError:
        return False


@pytest.mark.parametrize(
    "value", [0, -(2**63), 2**63 - 1, "0", " ", "x" * ID_BYTES, "ä" * 64, "\u2028", "😀"]
)
def test_integers_of_64_bits_and_short_texts_are_ids(value):
    assert is_id(value)


@pytest.mark.parametrize(
    "value",
    [-(2**63) - 1, 2**63, "", "x" * 129, "ä" * 65, "a\x85b", "\udc80", True, 1.5, 2.0**54, None, [1], b"a"],
)
def test_other_values_are_refused_as_ids(value):
    expected = "expected an integer of 64 bits, or text of 1 to 128 bytes without control characters"
    with pytest.raises(ValidationError) as caught:
        ID.validate_python(value)
    assert [one["msg"] for one in caught.value.errors()] == [expected]


def test_declared_pattern_refuses_the_same_characters_as_the_check():
    letters = [chr(code) for code in range(0x180)]
    assert [is_id(one) for one in letters] == [
        bool(re.search(TEXT_SCHEMA["pattern"], one)) for one in letters
    ]


def test_empty_request_has_no_user_and_no_history():
    assert RecommendRequest.model_validate({}).model_dump() == {
        "user_id": None,
        "history": None,
        "k": None,
        "exclude": [],
        "seed": None,
        "trace": False,
    }


@pytest.mark.parametrize(
    ("field", "fits", "beyond"),
    [
        ("k", [1, 1000, 5.0], [0, 1001, 10.5, "5", True, 1e300, float("inf")]),
        ("seed", [-(2**63), 2**63 - 1, -7.0], [-(2**63) - 1, 2**63, "1", 0.5, 2.0**54]),
        ("history", [[], [1] * LIST_LENGTH], [[1] * (LIST_LENGTH + 1), "i1", [None]]),
        ("exclude", [[], ["a"] * LIST_LENGTH], [["a"] * (LIST_LENGTH + 1), None]),
        ("trace", [True, False], [1, "true", None]),
    ],
)
def test_every_field_has_its_limit(field, fits, beyond):
    for value in fits:
        assert getattr(RecommendRequest.model_validate({field: value}), field) == value
    for value in beyond:
        with pytest.raises(ValidationError):
            RecommendRequest.model_validate({field: value})


def test_integral_float_is_the_integer():
    request = RecommendRequest.model_validate(
        {"k": 10.0, "seed": -0.0, "user_id": 17.0, "history": [1e3, "1.0"]}
    )
    values = (request.k, request.seed, request.user_id, *request.history)
    assert [repr(value) for value in values] == ["10", "0", "17", "1000", "'1.0'"]


def test_explain_request_needs_an_item():
    assert ExplainRequest.model_validate({"item_id": 7}).item_id == 7
    for body in ({}, {"item_id": None}):
        with pytest.raises(ValidationError):
            ExplainRequest.model_validate(body)
