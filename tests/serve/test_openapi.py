import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from shortlist.serve.openapi import document, document_text, surface
from shortlist.serve.schemas import Ask, ExplainAsk

from .tiny import PROBLEM_KEYS

COMMITTED = Path(__file__).parents[2] / "docs" / "openapi.json"
AGAIN = (
    "write it again: python -c 'from shortlist.serve.openapi import document_text as t; print(t(), end=\"\")'"
)


def test_the_committed_document_is_the_generated_one():
    assert COMMITTED.read_text("utf-8") == document_text(), AGAIN


def test_every_refusal_is_declared_in_the_shape_of_problems():
    whole = document(surface())
    assert whole["openapi"].startswith("3.1")
    for path in ("/v1/recommend", "/v1/explain"):
        told = whole["paths"][path]["post"]["responses"]
        assert {"200", "400", "404", "408", "413", "415", "422", "500", "503"} == set(told)
        assert all(
            list(one["content"]) == ["application/problem+json"]
            for status, one in told.items()
            if status != "200"
        )
    assert set(whole["components"]["schemas"]["Problem"]["properties"]) == PROBLEM_KEYS
    assert "HTTPValidationError" not in whole["components"]["schemas"]


def test_the_served_document_is_the_same(client):
    assert client.get("/openapi.json").json() == document(surface())


@pytest.mark.parametrize("shape", [Ask, ExplainAsk])
def test_no_field_can_be_asked_that_is_not_declared(shape):
    with pytest.raises(ValidationError):
        shape.model_validate({"item_id": "i1", "surprise": 1})


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
def test_a_body_is_answered_when_it_fits_the_shape_and_refused_when_not(client, body):
    answer = client.raw(json.dumps(body))
    assert answer.status_code == (200 if _fits(Ask, body) else 422), answer.text


@FUZZ
@given(body=likely)
def test_an_explanation_never_fails(client, body):
    answer = client.raw(json.dumps(body), "/v1/explain")
    assert answer.status_code in ((200, 404) if _fits(ExplainAsk, body) else (422,)), answer.text


@FUZZ
@given(body=st.binary(max_size=200))
def test_bytes_never_make_it_fail(client, body):
    assert client.raw(body).status_code in (200, 400, 422)


def _fits(shape, body):
    try:
        shape.model_validate(json.loads(json.dumps(body)))  # two halves of a surrogate pair meet on the way
    except ValidationError:
        return False
    return True
