"""The states of the users of a recommender, and the vectors that they bring to a query."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from shortlist.data import Query
from shortlist.grammar import Pipeline, Stage, leaves
from shortlist.models.state_model import StateModel
from shortlist.models.user_vectors import model_version, state_key
from shortlist.state import EventLog, StateSettings, UserStates, UserStateStore

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


def with_vectors(query: Query, states: UserStates, users: Sequence[int | str | None]) -> Query:
    """The query with the vectors of live states; a user that is None has none, so a model reads his history."""
    live = [place for place, user in enumerate(users) if user is not None]
    if not live:
        return query
    own = states.query([user for user in users if user is not None], states.version)
    vectors = torch.full((len(users), own.shape[1]), torch.nan)
    vectors[live] = own
    return replace(query, context={**query.context, state_key(states.version): vectors})
