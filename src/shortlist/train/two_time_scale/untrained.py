"""Models before their recurrences are trained: item vectors, vectors of active users, and what these hold."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Interactions
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.two_time_scale.personal import ItemSpace, Positions, fitted, held_vectors

if TYPE_CHECKING:  # the trainer makes trainings, which make models
    from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer

NOBODY = 2**31 - 1  # a threshold that no user passes


def untrained(
    trainer: "TwoTimeScaleTrainer",
    events: Interactions,
    active: NDArray[np.bool_],
    threshold: int,
    space: ItemSpace | None,
    extra: int = 0,
) -> TwoTimeScale:
    """A model with the item vectors of a space, rows for active users and `extra` ones, and random recurrences."""
    n_active, common = int(active.sum()), trainer.personal == "common"
    width = trainer.config.width if space is None else space.items.shape[1]
    config = trainer.config_for(
        events,
        n_users=events.n_users,
        n_active=min(n_active, 1) if common else n_active + extra,
        feature_width=width - trainer.config.width,
        threshold=threshold if 0 <= threshold < NOBODY else -1,
        last=trainer.last,
    )
    config = replace(config, prior=0.0 if space is None or trainer.personal != "own" else space.prior)
    if common and config.readout == "anchored":
        config = replace(config, readout="plain", gate_bias=0.0)
    model = TwoTimeScale(config)
    numbers = np.zeros(n_active, np.int64) if common else np.arange(n_active)
    with torch.no_grad():
        model.own_row[torch.from_numpy(np.flatnonzero(active))] = torch.from_numpy(numbers)
        if space is not None:
            model.items.copy_(space.items)
            model.start.copy_(space.mean)
            model.mean.copy_(space.mean)
    return model


@torch.no_grad()
def set_own_vectors(
    model: TwoTimeScale,
    trainer: "TwoTimeScaleTrainer",
    events: Interactions,
    users: Positions,
    space: ItemSpace,
) -> None:
    """Set the vectors of active users, and how many events are in them."""
    if not len(users):
        return
    if trainer.personal == "common":
        model.own.copy_(space.mean[None])
        return
    if trainer.base == "held":
        own = held_vectors(events, users, trainer.last, space)
    else:
        own = fitted(events, events.starts[users], events.starts[users + 1], space)
    replayed = trainer.last if trainer.base == "held" or trainer.replay else 0
    model.own[: len(users)] = own
    model.base[: len(users)] = torch.from_numpy(np.maximum(events.lengths[users] - replayed, 0)).to(
        own.device
    )
