"""The metric of a system on validation events after every epoch of all its stages, against seconds of training."""

from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from shortlist.data import Interactions
from shortlist.lab.experiments.cache import empty
from shortlist.lab.experiments.two_time_scale.cells.places import place_data
from shortlist.lab.experiments.two_time_scale.cells.state_cell import StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import TWO, trainer_of
from shortlist.lab.experiments.two_time_scale.cells.train_cell import validated
from shortlist.lab.experiments.two_time_scale.cells.warm_up import warm_up
from shortlist.lab.experiments.two_time_scale.cells.watch import Watch
from shortlist.models.model import Model
from shortlist.train.loop.device import device_of
from shortlist.train.loop.trainer import Fit, LoopTrainer
from shortlist.train.models.trainer import OnValidation
from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer
from shortlist.train.two_time_scale.training import Training

Measure = Callable[[Model], None]


def run_curve_cell(
    cell: StateCell, folder: Path | None, device: str = "auto"
) -> tuple[Tensor, dict[str, Any]]:
    """Points of the metric; nothing is shared with other cells, so that seconds are those of this system."""
    data, watch = place_data(cell.place, cell.seed, folder, device), Watch()

    def measure(model: Model) -> None:
        watch.measured(validated(model, data))

    trainer = measuring(trainer_of(cell.system, cell.place).with_settings(device=device), measure)
    valid = data.valid_users if cell.system.model == TWO else data.valid
    fit = Fit(data.train, valid, cell.seed, watch, watch.validated, catalog=data.catalog)
    warm_up(device_of(device))
    watch.begin()
    if isinstance(trainer, TwoTimeScaleTrainer):
        training = Training(trainer, fit)
        if cell.system.has_first_stage:
            first = measuring(trainer_of(cell.system.first, cell.place).with_settings(device=device), measure)
            training.first = first.learn(
                data.train, data.valid, cell.seed, watch, watch.validated, catalog=data.catalog
            )
        training.run()
    else:
        trainer.learn(data.train, data.valid, cell.seed, watch, watch.validated, catalog=data.catalog)
    return empty(), {"points": [asdict(point) for point in watch.points], "seconds by stage": watch.stages}


def measuring(trainer: Any, measure: Measure) -> Any:
    """The same trainer, which measures its model after every epoch, beside its early stopping."""
    kind: type[LoopTrainer] = type(trainer)

    class Measured(kind):  # type: ignore[misc, valid-type]
        def _validate(
            self,
            model: Any,
            events: Interactions,
            metric: Callable[[], float] | None,
            on_validation: OnValidation,
        ) -> Callable[[], float] | None:
            inner = super()._validate(model, events, metric, on_validation)
            if inner is None:
                return None

            def validate() -> float:
                value: float = inner()
                measure(model)
                return value

            return validate

    return Measured(**{one.name: getattr(trainer, one.name) for one in fields(trainer)})
