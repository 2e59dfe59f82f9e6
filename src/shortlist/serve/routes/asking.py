"""What can go wrong wherever a body is asked with."""

from shortlist.serve.problems import declare

BODY_CODES = (
    "malformed-json",
    "not-found",
    "body-timeout",
    "body-too-large",
    "unsupported-media-type",
    "invalid-request",
    "overloaded",
    "not-ready",
)
BODY_PROBLEMS = declare(*BODY_CODES)
