"""Estimates of the threshold from events after the training: moments of own vectors, and losses of later events."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shortlist.lab.experiments.two_time_scale.cells.places import TINY, place_data
from shortlist.lab.experiments.two_time_scale.cells.state_cell import StateCell
from shortlist.lab.experiments.two_time_scale.cells.systems import rate_of, trainer_of
from shortlist.lab.experiments.two_time_scale.cells.train_cell import known_recurrence, train_cell
from shortlist.lab.experiments.two_time_scale.threshold_curve import (
    Halves,
    Losses,
    ThresholdCurve,
    threshold_curve,
)
from shortlist.metrics.moments import LengthBin, Moments
from shortlist.models.model import VectorModel
from shortlist.train.two_time_scale.personal import chosen_prior

FEW: dict[str, Any] = {"sizes": (2, 3), "grid": (0, 2, 5), "held": 3}  # in the tiny world
KINDS = ("own", "weak", "mean", "recurrence")


def run_threshold_cell(
    cell: StateCell, folder: Path | None, device: str = "auto"
) -> tuple[Tensor, dict[str, Any]]:
    """A threshold curve on validation and test events: item vectors and recurrence were not trained on them."""
    base = cell.system.base
    assert base is not None
    shared = known_recurrence(cell.place, base, cell.seed, rate_of(cell.system, cell.place), folder, device)
    model = train_cell(cell.place, cell.system, cell.seed, None, folder, device).model
    assert shared.everyone is not None
    assert isinstance(model, VectorModel)
    split = place_data(cell.place, cell.seed, folder, device).split
    later = split.events.where(split.part > 0)
    small = FEW if cell.place.name == TINY else {}
    repeats, last = cell.place.repeats, trainer_of(cell.system, cell.place).settings()["last"]
    space = chosen_prior(split.train, shared.everyone.space, last, cell.seed)
    curve = threshold_curve(later, space, model, exclude_seen=not repeats, seed=cell.seed, **small)
    return _packed(curve), {
        "halves": [asdict(one) for one in curve.halves],
        "t": [one.t for one in curve.losses],
    }


def read_curve(tensor: Tensor, facts: dict[str, Any]) -> ThresholdCurve:
    """The curve from the answer of a cell."""
    halves = tuple(_halves(one) for one in facts["halves"])
    losses = []
    for t, values in zip(facts["t"], tensor.double().numpy(), strict=True):
        own, weak, mean, recurrence = values[:, ~np.isnan(values[0])]  # [kinds, U]
        losses.append(Losses(t, own, weak, mean, None if np.isnan(recurrence).any() else recurrence))
    return ThresholdCurve(halves, tuple(losses))


def _halves(plain: dict[str, Any]) -> Halves:
    moments = {name: Moments(**plain[name]) for name in ("moments", "weak")}
    return Halves(**{**plain, **moments, "by_length": tuple(LengthBin(**one) for one in plain["by_length"])})


def _packed(curve: ThresholdCurve) -> Tensor:
    """Losses of all users after every number of events [t, kinds, U], NaN where there are fewer users."""
    longest = max(len(one.own) for one in curve.losses)
    packed = torch.full((len(curve.losses), len(KINDS), longest), torch.nan)
    for place, one in enumerate(curve.losses):
        for row, kind in enumerate(KINDS):
            values = getattr(one, kind)
            if values is not None:
                packed[place, row, : len(values)] = torch.from_numpy(values).float()
    return packed
