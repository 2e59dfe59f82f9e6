"""Schemas of requests and responses, with the limits of every field."""

import unicodedata
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from shortlist.feedback.schema import EVENTS
from shortlist.serve.messages import shown

ID_BYTES = 128
LIST_LENGTH = 1000
MAX_K = 1000
INT64 = 2**63

MAX_VALUE = 1e30
EXACT = 2**53  # a float beyond may stand for another integer

INTEGER_SCHEMA = {"type": "integer", "format": "int64"}
TEXT_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_BYTES,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
}


def _integer(value: object) -> int | None:
    """The integer that a JSON number is, 10 for 10.0 too; None for any other value."""
    if isinstance(value, float):
        return int(value) if abs(value) <= EXACT and value.is_integer() else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _check_id(value: object) -> int | str:
    number = _integer(value)
    if number is not None and -INT64 <= number < INT64:
        return number
    if isinstance(value, str) and _is_clean(value):
        return value
    raise PydanticCustomError(
        "id", f"expected an integer of 64 bits, or text of 1 to {ID_BYTES} bytes without control characters"
    )


def _check_name(value: object) -> str:
    if isinstance(value, str) and _is_clean(value):
        return value
    raise PydanticCustomError("name", f"expected one of {', '.join(EVENTS)}")


def _is_clean(text: str) -> bool:
    """Whether a text is short and without control characters and lone surrogates."""
    if not 0 < len(text) <= ID_BYTES or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        return False
    return len(text.encode()) <= ID_BYTES


def _number(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_VALUE:
        return float(value)
    raise PydanticCustomError("number", f"expected a number from -{MAX_VALUE:g} to {MAX_VALUE:g}")


def _whole(least: int, most: int, expected: str) -> PlainValidator:
    """A validator of integers from `least` to `most`."""

    def check(value: object) -> int:
        number = _integer(value)
        if number is None or not least <= number <= most:
            raise PydanticCustomError("integer", "{message}", {"message": f"{expected}, got {shown(value)}"})
        return number

    return PlainValidator(check)


Id = Annotated[int | str, PlainValidator(_check_id), WithJsonSchema({"anyOf": [INTEGER_SCHEMA, TEXT_SCHEMA]})]
Name = Annotated[str, PlainValidator(_check_name), WithJsonSchema(TEXT_SCHEMA)]
Seed = Annotated[
    int, _whole(-INT64, INT64 - 1, "expected an integer of 64 bits"), WithJsonSchema(INTEGER_SCHEMA)
]
Size = Annotated[
    int,
    _whole(1, MAX_K, f"expected an integer from 1 to {MAX_K}"),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_K}),
]
Ids = Annotated[list[Id], Field(max_length=LIST_LENGTH)]


Value = Annotated[float, PlainValidator(_number), WithJsonSchema({"type": "number"})]


class RecommendRequest(BaseModel):
    """A request for a slate; without user and history it is for an unknown user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user_id: Id | None = Field(None, description="User id; an unknown user is answered without a history.")
    history: Ids | None = Field(None, description="Item ids, oldest first; replaces the stored history.")
    k: Size | None = Field(None, description="Number of items; default: the pipeline's own.")
    exclude: Ids = Field([], description="Items that must not be returned.")
    seed: Seed | None = Field(None, description="Random seed.")
    trace: bool = Field(
        False, description="Return the number of candidates that every stage kept, removed and cut."
    )


class ExplainRequest(RecommendRequest):
    """A request for a slate and the item to explain."""

    item_id: Id


class Event(BaseModel):
    """What a user did with an item; an event needs a log_id, a user_id, or both."""

    model_config = ConfigDict(extra="forbid", strict=True)

    log_id: Id | None = Field(
        None, description="The log_id of the response with the slate: the event goes into the log."
    )
    user_id: Id | None = Field(None, description="The event changes the answers to this user at once.")
    event_id: Id | None = Field(
        None,
        description="Events of a user with the same id count once; without one, those with the same item, kind and "
        "time do.",
    )
    item_id: Id
    event: Name = Field(description=f"One of {', '.join(EVENTS)}.")
    event_ts_ms: Seed = Field(description="Time of the event in milliseconds since 1970.")
    value: Value = Field(0.0, description="Such as milliseconds of play.")

    @model_validator(mode="after")
    def check_target(self) -> Self:
        if self.log_id is None and self.user_id is None:
            raise PydanticCustomError("event", "expected a log_id, a user_id, or both")
        return self


class EventsRequest(BaseModel):
    """Events of logged requests and of users, in any order."""

    model_config = ConfigDict(extra="forbid", strict=True)

    events: list[Event] = Field(max_length=LIST_LENGTH)


class Model(BaseModel):
    """The model that answers."""

    name: str
    version: str
    pipeline: str


class Degradation(BaseModel):
    """A stage that was skipped."""

    stage: str
    cause: str = Field(description="timeout, busy or error")


class StageCounts(BaseModel):
    """Candidates at one stage: `entered` is `kept` + `removed` + `cut`."""

    name: str
    kind: str
    entered: int
    kept: int
    removed: int
    cut: int
    ms: float


class ResponseBase(BaseModel):
    """Fields of every response."""

    request_id: str
    log_id: str | None = Field(
        None,
        description="Id of the request in the full-stage log, for its events; absent if it is not logged.",
    )
    model: Model
    known_user: bool
    ignored: int = Field(description="Number of history items that are not in the catalogue.")
    degraded: list[Degradation]
    took_ms: float
    stages: list[StageCounts] | None = None


class Item(BaseModel):
    """One item of the slate."""

    item_id: int | str
    title: str
    categories: list[str] = Field(description="Every category of the item, none if unknown.")
    score: float | None
    rank: int
    nominators: list[str]
    propensity: float | None = None


class RecommendResponse(ResponseBase):
    """A slate, best first."""

    items: list[Item]


class RejectedEvent(BaseModel):
    """An event that was left out, by its place in the request from 0."""

    index: int
    code: str
    detail: str


class LiveEvents(BaseModel):
    """What became of the events that have a user_id and are not rejected."""

    applied: int = Field(description="Events that changed the answers to their users.")
    duplicates: int = Field(description="Events that were there already.")
    late: int = Field(description="Events that are far older than a later one of their user.")
    dropped: int = Field(description="Of them, those that are left out, which no other event is.")
    ignored: int = Field(description="Impressions and hidden items, which change no state.")


class EventsResponse(BaseModel):
    """How many events were written or applied; those that are none are named."""

    request_id: str
    accepted: int = Field(description="Events that are neither rejected nor dropped because they are late.")
    rejected: list[RejectedEvent]
    live: LiveEvents | None = Field(None, description="Absent if no event has a user_id.")


class ForgetRequest(BaseModel):
    """A user whose events, history and state are removed."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user_id: Id


class ForgetResponse(BaseModel):
    """The user is a new one from now on."""

    request_id: str
    known_user: bool = Field(description="Whether anything of the user was there.")
    durable: bool = Field(
        description="Whether this outlives the service. Without --state it does not: after a restart the user is known "
        "again from the bundle."
    )


class Nomination(BaseModel):
    """Score and rank of the item in one nominator; ranks count from 1."""

    nominator: str
    score: float | None
    rank: int
    of: int


class StageOutcome(BaseModel):
    """What happened to the item at one stage; `threshold` is the lowest score that was kept."""

    stage: str
    kind: str
    verdict: str
    score: float | None
    rank: int
    of: int
    threshold: float | None


class ExplainResponse(ResponseBase):
    """The path of one item through one request."""

    item_id: int | str
    title: str
    sentence: str
    verdict: str = Field(description="returned, not nominated, removed or cut")
    dropped_at: str
    position: int = Field(description="Position in the slate from 1; 0 when not returned.")
    nominations: list[Nomination]
    outcomes: list[StageOutcome]


class FieldError(BaseModel):
    """The error of one field, with its JSON pointer."""

    pointer: str
    message: str


class Problem(BaseModel):
    """A refused or failed request (RFC 9457); `instance` is the request id."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[FieldError]


class Readiness(BaseModel):
    """Whether the service accepts requests, by component."""

    ready: bool
    components: dict[str, str]


class Version(BaseModel):
    """Versions of the running service."""

    shortlist: str
    api: str
    model: Model
