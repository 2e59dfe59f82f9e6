"""The jobs of the benchmark of CCF, in processes of their own: one epoch, and steps against the plain loop."""

import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.errors import ShortlistError
from shortlist.lab.bench.ccf.plain import OPTIMIZERS, PlainLoop
from shortlist.lab.bench.ccf.power_law_log import power_law_log
from shortlist.lab.bench.ccf.sizes import SIZES, Size
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.lab.bench.timing import Job, alternating
from shortlist.models.collaborative.ccf import CCF
from shortlist.train.loop.lazy_adamw import clip_gradients
from shortlist.train.loop.loop import MAX_NORM
from shortlist.train.models.ccf import CCFTrainer, OfferBatches

CPU = torch.device("cpu")
CLOSE = 1e-4  # largest difference of gradients, relative to the largest value: rounding


def epoch(size: str, seed: int) -> dict[str, float]:
    """Seconds and peak memory of a training of one epoch over all events, and those before it."""
    given = SIZES[size]
    events = power_law_log(given.users, given.items, given.events, seed)
    before, began = peak_bytes(), time.perf_counter()
    trainer_of(given).learn(events, seed=seed)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak_bytes": peak_bytes(), "log_peak_bytes": before}


def compare(size: str, seed: int) -> dict[str, Any]:
    """Processor seconds per step of our training and of the plain loops, in alternation from the same weights."""
    given = SIZES[size]
    events = power_law_log(given.users, given.items, given.events, seed)
    torch.manual_seed(seed)
    trainer = trainer_of(given)
    model, data = trainer.begin(events, None).train(), OfferBatches.of(events, CPU, mask_history=False)
    plain = {name: PlainLoop(trainer, model, data, name) for name in OPTIMIZERS}
    batches = list(_first(data, given, seed))
    differ = difference(trainer, model, data, next(iter(plain.values())), batches[0])
    if not differ <= CLOSE:
        raise ShortlistError(
            f"bench ccf: gradients of ours and of the plain loop differ by {differ:.2g}, expected equal ones; fix one "
            "of them before comparing times"
        )
    jobs: dict[str, Job] = {"ours": _ours(trainer, model, events, seed)}
    jobs |= {name: _plain(loop, batches) for name, loop in plain.items()}
    times = alternating(jobs, given.rounds, {"ours": given.steps}, time.process_time)
    return {"seconds": times, "difference": differ}


def trainer_of(size: Size) -> CCFTrainer:
    """One epoch with the defaults."""
    return CCFTrainer(epochs=1, batch_size=size.batch_size, device="cpu")


def difference(
    trainer: CCFTrainer, model: CCF, data: OfferBatches, plain: PlainLoop, at: NDArray[np.int32]
) -> float:
    """The largest difference of both sides' gradients for a batch, relative to the largest value."""
    state = {name: one.clone() for name, one in model.state_dict().items()}
    ours = trainer.loss_of(model, data, at, torch.Generator().manual_seed(0))
    ours.backward()  # type: ignore[no-untyped-call]
    plain.loss(at, torch.Generator().manual_seed(0)).backward()  # type: ignore[no-untyped-call]
    pairs = ((model.user_embedding, plain.users), (model.encoder.items, plain.items))
    found = [_relative(one.weight.grad, two.weight.grad) for one, two in pairs]
    for one, two in pairs:
        one.weight.grad = two.weight.grad = None
    model.load_state_dict(state)
    plain.mean.copy_(model.mean_user)
    return max(found)


def _relative(ours: torch.Tensor | None, plain: torch.Tensor | None) -> float:
    assert ours is not None
    assert plain is not None
    return float((ours.to_dense() - plain).abs().max() / plain.abs().max())


def _ours(trainer: CCFTrainer, model: CCF, events: Any, seed: int) -> Job:
    """Steps as the training loop does them."""
    optimizer = trainer.optimizer(model)
    batches = trainer._batches(model, events, seed, CPU)
    losses = (loss_of for number in cycle(range(1 << 20)) for loss_of in batches(number))

    def step(_: int) -> None:
        loss = next(losses)()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        clip_gradients(model, MAX_NORM)
        optimizer.step()

    return step


def _plain(loop: PlainLoop, batches: list[NDArray[np.int32]]) -> Job:
    """Steps of the plain loop, one batch after the other."""
    return lambda number: loop.step(
        batches[number % len(batches)], torch.Generator().manual_seed(number % 997)
    )


def _first(data: OfferBatches, size: Size, seed: int) -> Iterator[NDArray[np.int32]]:
    """The first batches of an epoch, as many as the plain loops need."""
    for _, at in zip(range(size.rounds + 1), data.positions(seed, 0, size.batch_size), strict=False):
        yield at


def main(job: str, size: str, seed: str) -> None:
    """Run a job on one thread and print its measurements as JSON."""
    torch.set_num_threads(1)
    sys.stdout.write(json.dumps({"epoch": epoch, "compare": compare}[job](size, int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
