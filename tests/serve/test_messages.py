"""Validation errors in the words of the service."""

import json

import pytest

from shortlist.serve.messages import SHOWN, shown

from .small_service import check_problem

ID = "expected an integer of 64 bits, or text of 1 to 128 bytes without control characters"
FIELDS = "user_id, history, k, exclude, seed, trace"
WRONG = {
    "an unknown field": ({"histroy": []}, "/histroy", f"there is no such field; expected one of {FIELDS}"),
    "k too small": ({"k": 0}, "/k", "expected an integer from 1 to 1000, got 0"),
    "k too large": ({"k": 1001}, "/k", "expected an integer from 1 to 1000, got 1001"),
    "a fraction": ({"k": 10.5}, "/k", "expected an integer from 1 to 1000, got 10.5"),
    "text for k": ({"k": "5"}, "/k", 'expected an integer from 1 to 1000, got "5"'),
    "true for k": ({"k": True}, "/k", "expected an integer from 1 to 1000, got true"),
    "a seed too large": (
        {"seed": 2**63},
        "/seed",
        "expected an integer of 64 bits, got 9223372036854775808",
    ),
    "text for a history": ({"history": "i1"}, "/history", 'expected a list of ids, got "i1"'),
    "null to exclude": ({"exclude": None}, "/exclude", "expected a list of ids, got null"),
    "a long history": ({"history": [1] * 1001}, "/history", "expected at most 1000 ids, got 1001"),
    "null in a history": ({"history": ["i1", None]}, "/history/1", ID),
    "text for trace": ({"trace": "yes"}, "/trace", 'expected true or false, got "yes"'),
    "a list as body": ([1], "", "expected a JSON object, got [1]"),
    "null as body": (None, "", "expected a JSON object, got null"),
}


@pytest.mark.parametrize(("body", "pointer", "message"), WRONG.values(), ids=WRONG)
def test_message_says_what_was_expected_and_what_came(client, body, pointer, message):
    problem = check_problem(client.raw(json.dumps(body)), 422, "invalid-request")
    assert problem["errors"] == [{"pointer": pointer, "message": message}]
    assert problem["detail"] == f"{pointer or 'the body'}: {message}"


def test_unknown_field_of_an_explanation_lists_the_item_too(client):
    problem = check_problem(client.explain(item_id="i1", user="u1"), 422, "invalid-request")
    assert problem["errors"][0]["message"] == f"there is no such field; expected one of {FIELDS}, item_id"


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), ("ä\n", '"\\u00e4\\n"'), ([1, "a"], '[1, "a"]'), (1e400, "Infinity")]
)
def test_value_is_shown_as_json(value, text):
    assert shown(value) == text


def test_long_value_is_shown_short():
    assert shown("x" * 1000) == '"' + "x" * (SHOWN - 4) + "..."
