"""The states of the users of a recommender, and the vectors that they bring to a query."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from shortlist.data import Query
from shortlist.errors import ArtifactError, VersionMismatch
from shortlist.grammar import Pipeline, Stage, leaves
from shortlist.models.state_model import StateModel
from shortlist.models.user_vectors import model_version, state_key
from shortlist.state import EventLog, LiveUsers, StateSettings, UserStates, UserStateStore, rows_fingerprint

if TYPE_CHECKING:  # its methods call these functions
    from shortlist.pipeline.recommender import Recommender

NO_MODEL = "histories"  # version of states without vectors


def live_states(
    recommender: "Recommender", settings: StateSettings, log: EventLog | None = None
) -> UserStateStore:
    """A store for the users of a bundle, with vectors of its first model that has a user state."""
    models = state_models(recommender.pipeline)
    model = models[0] if models else None
    version = NO_MODEL if model is None else model_version(model)
    items, histories = recommender.catalog.vocabulary, recommender.histories
    since = since_ms(recommender)
    return UserStateStore(model, recommender.users, items, histories, version, settings, log, since)


def since_ms(recommender: "Recommender") -> int:
    """The first time of live events: earlier ones are in the histories of the bundle, if they happened at all."""
    return max(recommender.about.ends + 1, 0) if recommender.about.clock == "ms" else 0


def state_models(pipeline: Pipeline) -> list[StateModel]:
    """The models of a pipeline that have a user state, each once, in the order of the stages."""
    found = [model for stage in leaves(pipeline) for model in _models_of(stage)]
    return list(dict.fromkeys(found))


def _models_of(stage: Stage) -> list[StateModel]:
    """The model of a stage, or of the nominator inside a stage that is no parent of it."""
    parts = [stage, *(one for one in vars(stage).values() if isinstance(one, Stage))]
    return [model for one in parts if isinstance(model := getattr(one, "model", None), StateModel)]


def state_versions(pipeline: Pipeline) -> tuple[str, ...]:
    """The versions whose states a pipeline can be answered with: those of its models."""
    return tuple(model_version(model) for model in state_models(pipeline)) or (NO_MODEL,)


def version_in(states: UserStates, own: Sequence[str]) -> str:
    """The first of the own versions of a pipeline that the states have."""
    there = states.versions
    for version in own:
        if version in there:
            return version
    raise VersionMismatch(
        f"states: expected version {' or '.join(own)}, which the pipeline has a model of, got {' and '.join(there)}; "
        "migrate the states to this model, or begin with: recommender = recommender.live()"
    )


def check_bundle(recommender: "Recommender", states: UserStates) -> None:
    """Refuse states whose rows are those of other users or items."""
    version = version_in(states, state_versions(recommender.pipeline))
    expected = rows_fingerprint(recommender.users, recommender.catalog.vocabulary)
    if (found := states.fingerprint(version)) != expected:
        raise ArtifactError(
            f"states: version {version} has the users and items {found}, expected {expected} of the recommender; make "
            "the states from the same bundle"
        )


def read_users(
    states: UserStates, version: str, users: Sequence[int | str | None], others: LiveUsers
) -> LiveUsers:
    """Rows, histories and vectors of live users at one moment; a user that is None is answered from `others`."""
    live = [place for place, user in enumerate(users) if user is not None]
    found = states.read([user for user in users if user is not None], version)
    rows, histories = list(others.rows), list(others.histories)
    for at, place in enumerate(live):
        rows[place], histories[place] = found.rows[at], found.histories[at]
    vectors = None if found.vectors is None or not live else _placed(found.vectors, live, len(users))
    return LiveUsers(rows, histories, vectors)


def with_vectors(
    query: Query, states: UserStates, users: Sequence[int | str | None], version: str | None = None
) -> Query:
    """The query with the vectors of live states; a user that is None has none, so a model reads his history."""
    live = [place for place, user in enumerate(users) if user is not None]
    if not live:
        return query
    version = states.version if version is None else version
    own = states.query([user for user in users if user is not None], version)
    context = {**query.context, state_key(version): _placed(own, live, len(users))}
    return replace(query, context=context)


def _placed(vectors: Tensor, places: Sequence[int], count: int) -> Tensor:
    """Vectors [B, D], NaN where there is none."""
    placed = torch.full((count, vectors.shape[1]), torch.nan)
    placed[places] = vectors
    return placed
