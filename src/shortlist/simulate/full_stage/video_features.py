"""Observable features of World A for the stage models: what a service knows, not the utility itself."""

import numpy as np

from shortlist.simulate.full_stage.cell_noise import Floats, Rows
from shortlist.simulate.full_stage.short_video import ShortVideoWorld

NOISE = 0.5  # of measured properties, in standard deviations


def user_features(world: ShortVideoWorld) -> Floats:
    """Age group as one-hot columns, then measured patience and preferred log-duration [U, 9]."""
    rng, viewers = np.random.default_rng([world.seed, 19]), world.viewers
    measured = (_measured(viewers.patience, rng), _measured(viewers.preferred, rng))
    return np.column_stack([_one_hot(viewers.age_group, world.table.shape[0]), *measured])


def item_features(world: ShortVideoWorld) -> Floats:
    """Category as one-hot columns, topic, log-duration, log age, popularity and measured quality [I, 43]."""
    rng, videos = np.random.default_rng([world.seed, 20]), world.videos
    plain = (_standardised(videos.log_duration), _standardised(np.log1p(videos.age)), videos.log_popularity)
    category = _one_hot(videos.category, world.table.shape[1])
    return np.column_stack([category, videos.topic, *plain, _measured(videos.quality, rng)])


def _measured(values: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(_standardised(values) + NOISE * rng.standard_normal(len(values)), np.float32)


def _standardised(values: Floats) -> Floats:
    return np.asarray((values - values.mean()) / max(float(values.std()), 1e-9), np.float32)


def _one_hot(codes: Rows, count: int) -> Floats:
    return np.asarray(codes[:, None] == np.arange(count), np.float32)
