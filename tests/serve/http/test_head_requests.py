"""HEAD on the routes of the service, on a real port."""

import httpx
import pytest

from shortlist.serve import make_app
from tests.serve.small_service import TIMEOUT, listening_service, recommender_of


@pytest.fixture(scope="module")
def http():
    with (
        listening_service(make_app(recommender_of())) as (_, url),
        httpx.Client(base_url=url, timeout=TIMEOUT) as one,
    ):
        yield one


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/version", "/openapi.json"])
def test_head_is_get_without_the_body(http, path):
    head, get = http.head(path), http.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))
    assert head.headers["content-type"] == get.headers["content-type"]


def test_head_of_metrics_is_answered(http):
    assert http.head("/metrics").headers["content-type"].startswith("text/plain")


def test_head_where_get_is_not_allowed_is_refused(http):
    refused = http.head("/v1/recommend")
    assert (refused.status_code, refused.headers["allow"], refused.content) == (405, "POST", b"")
    assert http.head("/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["/livez", "/metrics"])
def test_method_is_refused_before_the_media_type(http, path):
    for content in (b"", b"x=1", b"x" * 2_000_000):
        refused = http.post(path, content=content)
        assert (refused.status_code, refused.json()["code"]) == (405, "method-not-allowed")
        assert refused.headers["allow"] == "GET, HEAD"
        assert refused.json()["detail"] == "the path does not allow this method; use GET or HEAD"
    assert http.put("/v1/recommend", content=b"x").headers["allow"] == "POST"
    assert http.post("/nowhere", content=b"x").status_code == 404
