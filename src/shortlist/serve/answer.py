"""Compute a response from a validated request, in the scoring thread."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from shortlist.artifact.as_json import as_json
from shortlist.data import UNKNOWN, Vocabulary
from shortlist.grammar import Pipeline
from shortlist.pipeline import Slate, Trace, explain, run
from shortlist.pipeline.recommender import Request
from shortlist.pipeline.trace import StageCounts as Counts
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import RequestContext
from shortlist.serve.schemas import (
    Degradation,
    ExplainRequest,
    ExplainResponse,
    Item,
    RecommendRequest,
    RecommendResponse,
    StageCounts,
)
from shortlist.serve.service import Service

CAUSES = ("timeout", "busy")


@dataclass(frozen=True)
class ResolvedRequest:
    """A library request with the known items, and the number of unknown ones."""

    request: Request
    known_user: bool
    ignored: int


def recommend(service: Service, body: RecommendRequest, context: RequestContext) -> RecommendResponse:
    """The slate of one request."""
    resolved = resolve(service, body)
    pipeline = service.recommender.prepared(resolved.request)
    slate = run(pipeline, service.recommender.query([resolved.request]))
    service.metrics.ran(slate.trace)
    items = [Item(**vars(entry)) for entry in service.recommender.recommendations(slate)]
    logged = _logged(service, resolved.request, pipeline, slate)
    return RecommendResponse(**_common(service, body, context, resolved, slate), **logged, items=items)


def explain_item(service: Service, body: ExplainRequest, context: RequestContext) -> ExplainResponse:
    """The path of one item through one request."""
    item = service.recommender.catalog.vocabulary.row(body.item_id)
    if item == UNKNOWN:
        raise RefusedError("unknown-item", "the item is not in the catalogue of this model")
    resolved = resolve(service, body)
    slate = service.recommender.recommend(resolved.request)
    explanation = explain(slate.trace, item)
    known = service.recommender.item(item)
    return ExplainResponse(
        **_common(service, body, context, resolved, slate),
        item_id=known.item_id,
        title=known.title,
        sentence=explanation.sentence(known.title),
        **{name: value for name, value in as_json(explanation).items() if name != "item"},
    )


def resolve(service: Service, body: RecommendRequest) -> ResolvedRequest:
    """Keep the known items and count the unknown ids."""
    items = service.recommender.catalog.vocabulary
    known_user = service.recommender.knows(body.user_id)
    history = None if body.history is None else _known(items, body.history)
    ignored = len(body.history or ()) - len(history or ())
    service.metrics.unknown_items.inc(ignored)
    service.metrics.unknown_users.inc(body.user_id is not None and not known_user)
    request = Request(
        user=body.user_id,  # an unknown one has no history, but draws of its own
        history=history,
        k=body.k,
        exclude=_known(items, body.exclude),
        seed=service.seed if body.seed is None else body.seed,
    )
    return ResolvedRequest(request, known_user, ignored)


def degradations(trace: Trace) -> list[Degradation]:
    """The skipped stages; the messages of exceptions are not exposed."""
    heads = ((note.stage, note.detail.partition(":")[0]) for note in trace.degraded)
    return [Degradation(stage=stage, cause=head if head in CAUSES else "error") for stage, head in heads]


def degraded_header(found: list[Degradation]) -> str:
    """Skipped stages as an ASCII header: `rank;timeout, towers;error`."""
    return ", ".join(f"{quote(one.stage)};{one.cause}" for one in found)


def _logged(service: Service, request: Request, pipeline: Pipeline, slate: Slate) -> dict[str, Any]:
    """The id of the request in the log, if it is logged."""
    if service.log is None:
        return {}
    log_id = service.log.offer(slate.trace, pipeline, request.user, request.history)
    service.metrics.logged(service.log.counts)
    return {} if log_id is None else {"log_id": log_id}


def _common(
    service: Service, body: RecommendRequest, context: RequestContext, resolved: ResolvedRequest, slate: Slate
) -> dict[str, Any]:
    stages = {"stages": [_counts(stage) for stage in slate.trace.counts()]} if body.trace else {}
    return {
        "request_id": context.request_id,
        "model": service.model,
        "known_user": resolved.known_user,
        "ignored": resolved.ignored,
        "degraded": degradations(slate.trace),
        "took_ms": context.ms(),
        **stages,
    }


def _counts(stage: Counts) -> StageCounts:
    return StageCounts(**{name: value for name, value in vars(stage).items() if name != "notes"})


def _known(vocabulary: Vocabulary, ids: list[int | str]) -> list[int | str]:
    return [one for one in ids if vocabulary.row(one) != UNKNOWN]
