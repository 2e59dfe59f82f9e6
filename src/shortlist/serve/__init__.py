"""A trained recommender as an HTTP service."""

from shortlist.serve.app import make_app
from shortlist.serve.limits import Limits
from shortlist.serve.server import serve_app

__all__ = ["Limits", "make_app", "serve_app"]
