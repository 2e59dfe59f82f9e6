"""The shapes of what is asked and what is answered, each field with its limit."""

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
    """Whether a text can stand in a log and in UTF-8: short, no control characters, no lone surrogates."""
    if not 0 < len(text) <= ID_BYTES or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        return False
    return len(text.encode()) <= ID_BYTES


Id = Annotated[int | str, PlainValidator(_check_id), WithJsonSchema({"anyOf": [INTEGER_SCHEMA, TEXT_SCHEMA]})]
Seed = Annotated[int, Field(ge=-INT64, lt=INT64), WithJsonSchema(INTEGER_SCHEMA)]
Ids = Annotated[list[Id], Field(max_length=LIST_LENGTH)]


class Ask(BaseModel):
    """Whom a slate is for; without user and history it is for a stranger."""

    model_config = ConfigDict(extra="forbid", strict=True)

    user_id: Id | None = Field(None, description="A user; an unknown one is answered like a stranger.")
    history: Ids | None = Field(
        None, description="What was met, oldest first; it outranks what is remembered."
    )
    k: int | None = Field(
        None, ge=1, le=1000, description="How many items; the pipeline's own number if left out."
    )
    exclude: Ids = Field([], description="Items that must not be shown.")
    seed: Seed | None = Field(None, description="The source of all chance in answering.")
    trace: bool = Field(False, description="Tell what every stage was given, kept, removed and cut.")


class ExplainAsk(Ask):
    """A request for a slate, and the item whose way is of interest."""

    item_id: Id


class Model(BaseModel):
    """What answered."""

    name: str
    version: str
    pipeline: str


class Degradation(BaseModel):
    """A stage the answer had to do without."""

    stage: str
    cause: str = Field(description="timeout, busy or error")


class StageCount(BaseModel):
    """What one stage did: `in` is `out` + `removed` + `cut`."""

    name: str
    kind: str
    entered: int = Field(alias="in")
    out: int
    removed: int
    cut: int
    ms: float


class Told(BaseModel):
    """What every answer tells."""

    request_id: str
    model: Model
    known_user: bool
    ignored: int = Field(description="How many items of the history are not in the catalogue.")
    degraded: list[Degradation]
    took_ms: float
    stages: list[StageCount] | None = None


class Item(BaseModel):
    """A place of the slate."""

    item_id: int | str
    title: str
    category: str
    score: float | None
    rank: int
    nominators: list[str]
    propensity: float | None = None


class Answer(Told):
    """A slate, best first."""

    items: list[Item]


class Naming(BaseModel):
    """A nominator's word on the item; ranks count from 1."""

    nominator: str
    score: float | None
    rank: int
    of: int


class Passage(BaseModel):
    """What happened to the item at one stage; `threshold` is the lowest score that went on."""

    stage: str
    kind: str
    verdict: str
    score: float | None
    rank: int
    of: int
    threshold: float | None


class Explained(Told):
    """The way of one item through one request."""

    item_id: int | str
    title: str
    sentence: str
    verdict: str = Field(description="returned, not nominated, removed or cut")
    dropped_at: str
    position: int = Field(description="In the slate from 1; 0 when not returned.")
    namings: list[Naming]
    passages: list[Passage]


class FieldError(BaseModel):
    """What is wrong with one field, by its JSON pointer."""

    pointer: str
    message: str


class Problem(BaseModel):
    """A refusal or a failure, as RFC 9457 has it; `instance` is the id of the request."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[FieldError]


class Readiness(BaseModel):
    """Whether requests are welcome, component by component."""

    ready: bool
    components: dict[str, str]


class Version(BaseModel):
    """What is running."""

    shortlist: str
    api: str
    model: Model
