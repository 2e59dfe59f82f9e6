"""Schemas of requests and responses, with the limits of every field."""

import unicodedata
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

ID_BYTES = 128
LIST_LENGTH = 1000
INT64 = 2**63

INTEGER_SCHEMA = {"type": "integer", "format": "int64"}
TEXT_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": ID_BYTES,
    "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
}


def _check_id(value: object) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and -INT64 <= value < INT64:
        return value
    if isinstance(value, str) and _is_clean(value):
        return value
    raise PydanticCustomError(
        "id", f"expected an integer of 64 bits, or text of 1 to {ID_BYTES} bytes without control characters"
    )


def _is_clean(text: str) -> bool:
    """Whether a text is short and without control characters and lone surrogates."""
    if not 0 < len(text) <= ID_BYTES or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        return False
    return len(text.encode()) <= ID_BYTES


Id = Annotated[int | str, PlainValidator(_check_id), WithJsonSchema({"anyOf": [INTEGER_SCHEMA, TEXT_SCHEMA]})]
Seed = Annotated[int, Field(ge=-INT64, lt=INT64), WithJsonSchema(INTEGER_SCHEMA)]
Ids = Annotated[list[Id], Field(max_length=LIST_LENGTH)]


class RecommendRequest(BaseModel):
    """A request for a slate; without user and history it is for an unknown user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user_id: Id | None = Field(None, description="User id; an unknown user is answered without a history.")
    history: Ids | None = Field(None, description="Item ids, oldest first; replaces the stored history.")
    k: int | None = Field(None, ge=1, le=1000, description="Number of items; default: the pipeline's own.")
    exclude: Ids = Field([], description="Items that must not be returned.")
    seed: Seed | None = Field(None, description="Random seed.")
    trace: bool = Field(
        False, description="Return the number of candidates that every stage kept, removed and cut."
    )


class ExplainRequest(RecommendRequest):
    """A request for a slate and the item to explain."""

    item_id: Id


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
    category: str
    score: float | None
    rank: int
    nominators: list[str]
    propensity: float | None = None


class RecommendResponse(ResponseBase):
    """A slate, best first."""

    items: list[Item]


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
