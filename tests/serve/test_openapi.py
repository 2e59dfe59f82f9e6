"""The OpenAPI document, and fuzzed requests against it."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shortlist.serve.openapi import bare_app, document, document_text
from shortlist.serve.schemas import ExplainRequest, RecommendRequest

from .small_service import PROBLEM_KEYS

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
AGAIN = (
    "regenerate it: python -c 'from shortlist.serve.openapi import document_text as t; print(t(), end=\"\")'"
)


def test_committed_document_is_the_generated_one():
    assert COMMITTED.read_text("utf-8") == document_text(), AGAIN


def test_every_error_response_is_declared_as_a_problem():
    content = document(bare_app())
    assert content["openapi"].startswith("3.1")
    for path in ("/v1/recommend", "/v1/explain"):
        responses = content["paths"][path]["post"]["responses"]
        assert {"200", "400", "404", "408", "413", "415", "422", "431", "500", "503"} == set(responses)
        assert all(
            list(one["content"]) == ["application/problem+json"]
            for status, one in responses.items()
            if status != "200"
        )
    assert set(content["components"]["schemas"]["Problem"]["properties"]) == PROBLEM_KEYS
    assert "HTTPValidationError" not in content["components"]["schemas"]


def test_served_document_is_the_same_with_examples_that_are_answered(client):
    served = client.get("/openapi.json").json()
    for path in ("/v1/recommend", "/v1/explain"):
        example = served["paths"][path]["post"]["requestBody"]["content"]["application/json"].pop("example")
        answer = client.post(path, json=example)
        assert (answer.status_code, answer.json()["known_user"], answer.json()["ignored"]) == (200, True, 0)
    events = served["paths"]["/v1/events"]["post"]["requestBody"]["content"]["application/json"].pop(
        "example"
    )
    assert client.post("/v1/events", json=events).json()["live"]["applied"] == 1
    assert served == document(bare_app())


@pytest.mark.parametrize("schema", [RecommendRequest, ExplainRequest])
def test_undeclared_field_is_refused(schema):
    with pytest.raises(ValidationError):
        schema.model_validate({"item_id": "i1", "surprise": 1})


ids = st.one_of(
    st.integers(-(2**70), 2**70),
    st.text(st.characters(exclude_categories=()), max_size=140),
    st.sampled_from(["u1", "i1", "i2", "--5", "-", "٣", "1e3", True, 1.5, None]),
)
scalars = st.one_of(
    ids, st.none(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)
likely = st.fixed_dictionaries(
    {},
    optional={
        "user_id": ids,
        "history": st.lists(ids, max_size=8) | anything,
        "k": st.integers(-1, 1002) | anything,
        "exclude": st.lists(ids, max_size=8) | anything,
        "seed": st.integers(-(2**65), 2**65) | anything,
        "trace": st.booleans() | anything,
        "item_id": ids,
        "more": anything,
    },
)
FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FUZZ
@given(body=likely | anything)
def test_body_is_answered_if_it_fits_the_schema_and_refused_otherwise(client, body):
    answer = client.raw(json.dumps(body))
    assert answer.status_code == (200 if _fits(RecommendRequest, body) else 422), answer.text
    if answer.status_code == 422:
        messages = [one["message"] for one in answer.json()["errors"]]
        assert all(one.startswith(("expected", "there is no such field")) for one in messages), messages


@FUZZ
@given(body=likely)
def test_explanation_never_fails(client, body):
    answer = client.raw(json.dumps(body), "/v1/explain")
    assert answer.status_code in ((200, 404) if _fits(ExplainRequest, body) else (422,)), answer.text


@FUZZ
@given(body=st.binary(max_size=200))
def test_arbitrary_bytes_never_cause_a_failure(client, body):
    assert client.raw(body).status_code in (200, 400, 422)


def _fits(schema, body):
    try:
        schema.model_validate(json.loads(json.dumps(body)))  # the round trip joins surrogate pairs
    except ValidationError:
        return False
    return True
