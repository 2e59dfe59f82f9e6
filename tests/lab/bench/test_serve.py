import http.server
import threading

import pytest

from shortlist.errors import ShortlistError
from shortlist.lab.bench import serve
from shortlist.lab.result import result_json


def test_quick_profile_measures_the_ratio_and_the_throughput():
    result = serve.bench_serve(requests=40, size="small")
    printed = result_json(result)
    assert printed["name"] == "serve"
    assert [claim.id for claim in result.claims] == ["keepalive_over_handler"]
    assert printed["keepalive_over_handler"] == pytest.approx(
        printed["one_client_p50_ms"] / printed["one_handler_p50_ms"]
    )
    assert printed["keepalive_over_handler"] > 1  # a client waits at least for the handler
    assert min(printed["one_per_second"], printed["of_8_per_second"]) > 0
    assert [len(row.values) for row in result.rows] == [40] * 4


def test_refused_request_ends_the_benchmark():
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_error(503)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(ShortlistError, match="bench serve: expected status 200, got 503"):
            serve.ask(f"http://127.0.0.1:{server.server_port}", ["u1"], 1)
        thread.join()
