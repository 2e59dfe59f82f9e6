"""What a pipeline adds to the record of its requests: capacities, policy versions and noise."""

import hashlib
from collections.abc import Sequence
from typing import Any

from shortlist.feedback.write.from_trace import RequestMeta
from shortlist.grammar import Pipeline


def request_meta(
    pipeline: Pipeline,
    version: str,
    request_id: Sequence[int],
    ts_ms: Sequence[int],
    user_id: Sequence[int | str | None] = (),
    context: Sequence[dict[str, Any] | None] = (),
) -> RequestMeta:
    """The meta of requests that this pipeline answers; `version` is that of its bundle."""
    number, stages = policy_version(version), pipeline.stages
    return RequestMeta(
        request_id,
        ts_ms,
        user_id,
        policy_version=[number] * len(stages),
        capacities=[stage.capacity for stage in stages],
        context=context,
        noise=noise_of(pipeline),
    )


def policy_version(version: str) -> int:
    """A bundle's version as a number of 31 bits; 0 for a pipeline that was never saved."""
    return int(hashlib.sha256(version.encode()).hexdigest()[:8], 16) >> 1 if version else 0


def noise_of(pipeline: Pipeline) -> tuple[float, ...]:
    """The standard deviation of the noise that each nominator adds to user vectors; empty if none does."""
    found = tuple(float(_setting(part, "serving_noise") or 0.0) for part in pipeline.nominators)
    return found if any(found) else ()


def _setting(stage: Any, name: str) -> Any:
    """A setting of a stage or of the stage that it wraps, None where there is none."""
    if name in stage.__dict__:
        return stage.__dict__[name]
    return next((found for one in stage.children() if (found := _setting(one, name)) is not None), None)
