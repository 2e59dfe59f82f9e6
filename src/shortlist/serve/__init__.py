"""A trained recommender as an HTTP service."""

from shortlist.feedback.write.request_log import LogTo
from shortlist.serve.app import app_of, make_app
from shortlist.serve.examples import request_examples
from shortlist.serve.limits import Limits
from shortlist.serve.live import LiveTo
from shortlist.serve.server import serve_app
from shortlist.serve.workers import serve_workers

__all__ = [
    "Limits",
    "LiveTo",
    "LogTo",
    "app_of",
    "make_app",
    "request_examples",
    "serve_app",
    "serve_workers",
]
