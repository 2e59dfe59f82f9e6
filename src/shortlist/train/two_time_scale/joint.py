"""All weights in one training: tables as parameters, and batches of both groups in turn."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from shortlist.data import Interactions
from shortlist.models.collaborative.item_encoder import STD
from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.loop.loop import Batches
from shortlist.train.two_time_scale.batches import DeviceEvents, batches_of
from shortlist.train.two_time_scale.recurrence import group_loss
from shortlist.train.two_time_scale.sequences import Sequences, last_events, of_new_users, whole

if TYPE_CHECKING:
    from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer


@contextmanager
def as_parameters(model: TwoTimeScale, names: tuple[str, ...]) -> Iterator[None]:
    """Inside the block these buffers are parameters, so that an optimizer trains them."""
    for name in names:
        buffer = model._buffers.pop(name)
        assert buffer is not None
        model.register_parameter(name, nn.Parameter(buffer))
    try:
        yield
    finally:
        for name in names:
            trained = model._parameters.pop(name)
            assert trained is not None
            model.register_buffer(name, trained.detach())


def groups_of(
    trainer: "TwoTimeScaleTrainer", events: Interactions, active: NDArray[np.bool_]
) -> dict[bool, Sequences]:
    """The sequences of new and of active users."""
    window, threshold = trainer.window, max(trainer.threshold, 0)
    if trainer.prefix == "window":
        new = whole(events, np.ones(events.n_users, bool), window, known=False)
    else:
        prefix = min(threshold, window) if trainer.prefix == "threshold" else 0
        new = of_new_users(events, active, prefix, window)
    return {False: new, True: last_events(events, active, trainer.last)}


@torch.no_grad()
def set_random_tables(model: TwoTimeScale, lengths: NDArray[np.int64], last: int) -> None:
    """Set random item and own vectors, and bases of all but the `last` events of users with so many [A]."""
    model.items.normal_(std=STD)
    model.own.normal_(std=STD)
    model.base.copy_(torch.from_numpy(np.maximum(lengths - last, 0)))


def both_groups(
    model: TwoTimeScale,
    events: DeviceEvents,
    groups: Mapping[bool, Sequences],
    trainer: "TwoTimeScaleTrainer",
    seed: int,
) -> tuple[Batches, int]:
    """The batches of both groups in random order, and their number per epoch."""
    parts = []
    for active, sequences in groups.items():
        if len(sequences):
            loss = group_loss(model, events, active, trainer.loss_for(events.host))
            parts.append(batches_of(events, sequences, loss, trainer.batch_size, seed))

    def batches(epoch: int) -> Iterator[Callable[[], Tensor]]:
        steps = [step for own, _ in parts for step in own(epoch)]
        for at in np.random.default_rng((seed, epoch, 1)).permutation(len(steps)):
            yield steps[at]

    return batches, sum(number for _, number in parts)
