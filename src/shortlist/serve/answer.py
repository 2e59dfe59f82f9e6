"""From a checked body to an answer: the work of the scoring thread."""

from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

from shortlist.data import UNKNOWN, Vocabulary
from shortlist.pipeline import Slate, Trace, explain
from shortlist.pipeline.recommender import Request
from shortlist.serve.problems import RefusedError
from shortlist.serve.request_context import Visit
from shortlist.serve.schemas import Answer, Ask, Degradation, ExplainAsk, Explained, Item, StageCount
from shortlist.serve.service import Service

CAUSES = ("timeout", "busy")


@dataclass(frozen=True)
class Understood:
    """A request in the words of the library, and what of it means nothing to us."""

    request: Request
    known_user: bool
    ignored: int


def recommend(service: Service, ask: Ask, visit: Visit) -> Answer:
    """A slate."""
    understood = understand(service, ask)
    slate = service.recommender.recommend(understood.request)
    service.metrics.ran(slate.trace)
    items = [Item(**vars(entry)) for entry in service.recommender.recommendations(slate)]
    return Answer(**_told(service, ask, visit, understood, slate), items=items)


def explain_item(service: Service, ask: ExplainAsk, visit: Visit) -> Explained:
    """The way of one item."""
    item = service.recommender.catalog.vocabulary.row(ask.item_id)
    if item == UNKNOWN:
        raise RefusedError("unknown-item", "the item is not in the catalogue of this model")
    understood = understand(service, ask)
    slate = service.recommender.recommend(understood.request)
    way = explain(slate.trace, item)
    known = service.recommender.item(item)
    return Explained(
        **_told(service, ask, visit, understood, slate),
        item_id=known.item_id,
        title=known.title,
        sentence=way.sentence(known.title),
        **plain({name: value for name, value in asdict(way).items() if name != "item"}),
    )


def understand(service: Service, ask: Ask) -> Understood:
    """Keep the ids that are known; count those that are not."""
    items, users = service.recommender.catalog.vocabulary, service.recommender.users
    known_user = ask.user_id is not None and users.row(ask.user_id) != UNKNOWN
    history = None if ask.history is None else _known(items, ask.history)
    ignored = len(ask.history or ()) - len(history or ())
    service.metrics.unknown_items.inc(ignored)
    service.metrics.unknown_users.inc(ask.user_id is not None and not known_user)
    request = Request(
        user=ask.user_id if known_user else None,
        history=history,
        k=ask.k,
        exclude=_known(items, ask.exclude),
        seed=service.seed if ask.seed is None else ask.seed,
    )
    return Understood(request, known_user, ignored)


def degradations(trace: Trace) -> list[Degradation]:
    """What the answer had to do without; the words of an exception stay inside."""
    heads = ((note.stage, note.detail.partition(":")[0]) for note in trace.degraded)
    return [Degradation(stage=stage, cause=head if head in CAUSES else "error") for stage, head in heads]


def degraded_header(found: list[Degradation]) -> str:
    """The same for proxies, in ASCII: `rank;timeout, towers;error`."""
    return ", ".join(f"{quote(one.stage)};{one.cause}" for one in found)


def plain(value: Any) -> Any:
    """The same value with None for every number JSON cannot say."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _told(service: Service, ask: Ask, visit: Visit, understood: Understood, slate: Slate) -> dict[str, Any]:
    counts = {"stages": [StageCount.model_validate(one) for one in slate.trace.counts()]} if ask.trace else {}
    return {
        "request_id": visit.request_id,
        "model": service.model,
        "known_user": understood.known_user,
        "ignored": understood.ignored,
        "degraded": degradations(slate.trace),
        "took_ms": visit.ms(),
        **counts,
    }


def _known(vocabulary: Vocabulary, ids: list[int | str]) -> list[int | str]:
    return [one for one in ids if vocabulary.row(one) != UNKNOWN]
