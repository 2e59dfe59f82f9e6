"""Small logs and models of the tests of two-time-scale users."""

from typing import Any

import numpy as np
import torch

from shortlist.data import Interactions
from shortlist.data.time_split import TimeSplit, time_split
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.train.models.two_time_scale import TwoTimeScaleTrainer
from shortlist.train.registry import make_trainer

ITEMS, WIDTH = 20, 6
QUICK: dict[str, Any] = {
    "width": 6, "epochs": 2, "first_epochs": 2, "batch_size": 128, "negatives": 16, "threshold": 12, "last": 4,
    "device": "cpu", "window": 30,
}  # fmt: skip


def tastes(users: int = 40, seed: int = 0, n_items: int = ITEMS) -> Interactions:
    """Users with 2 to 30 events; each prefers the items of one of four groups."""
    random = np.random.default_rng(seed)
    lengths = random.integers(2, 31, users)
    owner = np.repeat(np.arange(users), lengths)
    own = 4 * random.integers(0, n_items // 4, len(owner)) + owner % 4
    items = np.where(random.random(len(owner)) < 0.8, own, random.integers(0, n_items, len(owner)))
    return Interactions.of(
        owner, items, random.integers(0, 10**6, len(owner)), n_users=users, n_items=n_items
    )


def split(users: int = 40, seed: int = 0) -> TimeSplit:
    return time_split(tastes(users, seed))


def quick(**settings: Any) -> TwoTimeScaleTrainer:
    """A trainer that takes a moment."""
    trainer = make_trainer("two-time-scale", **{**QUICK, **settings})
    assert isinstance(trainer, TwoTimeScaleTrainer)
    return trainer


def random_model(events: Interactions, readout: str = "anchored", seed: int = 0) -> TwoTimeScale:
    """A model with random weights; users with more than 12 events are active, all but their last 4 are in the base."""
    torch.manual_seed(seed)
    active = np.flatnonzero(events.lengths > 12)
    sizes = {"n_items": events.n_items, "n_users": events.n_users, "n_active": len(active), "width": WIDTH}
    model = TwoTimeScale(TwoTimeScaleConfig(**sizes, readout=readout)).eval()
    with torch.no_grad():
        for weight in (*model.parameters(), model.items, model.own):
            weight.normal_(std=0.7)
        model.own_row[torch.from_numpy(active)] = torch.arange(len(active))
        model.base.copy_(torch.from_numpy(events.lengths[active] - 4))
    return model
