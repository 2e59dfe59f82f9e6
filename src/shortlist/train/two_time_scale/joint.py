"""All weights in one training: tables as parameters, and batches of both groups in turn."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor, nn

from shortlist.models.sequence.two_time_scale import TwoTimeScale
from shortlist.train.loop.loop import Batches
from shortlist.train.two_time_scale.batches import DeviceEvents, batches_of
from shortlist.train.two_time_scale.recurrence import group_loss
from shortlist.train.two_time_scale.sequences import Sequences

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
