"""User vectors of requests: of live states where a request has them, else computed from its history."""

import hashlib
import json
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from shortlist.data import Query
from shortlist.models.model import Model, VectorModel
from shortlist.models.state_model import StateModel

PREFIX = "user_state."  # of the keys of a query's context, before the version of a model

_versions: "WeakKeyDictionary[Model, str]" = WeakKeyDictionary()


def model_version(model: Model) -> str:
    """A hash of the class, the settings and the weights: states of one model mean nothing to another."""
    if model not in _versions:
        settings = json.dumps(model.settings(), sort_keys=True, default=str)
        digest = hashlib.sha256(f"{type(model).__name__} {settings}".encode())
        for name, value in sorted(model.state_dict().items()):
            plain = value.detach().cpu().contiguous()
            digest.update(f"{name} {plain.dtype} {list(plain.shape)}".encode())
            digest.update(np.ascontiguousarray(plain.numpy()).data)
        _versions[model] = digest.hexdigest()[:16]
    return _versions[model]


def state_key(version: str) -> str:
    """Where the context of a query has the user vectors [B, D] of a model; NaN where a request has none."""
    return f"{PREFIX}{version}"


def user_vectors(model: VectorModel, query: Query) -> Tensor:
    """User vectors [B, D]: those that the query brings for these weights, the others from histories."""
    brought = any(name.startswith(PREFIX) for name in query.context)
    if not brought or not isinstance(model, StateModel):
        return model.users(query.history, query.user)
    given = query.context.get(state_key(model_version(model)))
    if given is None:
        return model.users(query.history, query.user)
    missing = given.isnan().any(1).nonzero()[:, 0]
    if not len(missing):
        return given
    vectors = given.clone()
    rest = query.take(missing)
    vectors[missing] = model.users(rest.history, rest.user).to(given.dtype)
    return vectors
