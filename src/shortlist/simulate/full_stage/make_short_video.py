"""Build World A from a seed, at the size of KuaiRec or smaller."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, gammaincinv, ndtri

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.cell_noise import Floats
from shortlist.simulate.full_stage.short_video import (
    Scale,
    Shape,
    ShortVideoWorld,
    Videos,
    Viewers,
    WatchModel,
)

CATEGORIES, AGE_GROUPS, INTERESTS, TOPIC = 31, 7, 3, 8
SECONDS = 9.5  # median duration
SAMPLE = 1 << 17  # cells that means and intercepts are computed from

SHAPES = {
    "full": Shape(7176, 10_728, 1411, 3327, 0.1733, 0.1733),
    "small": Shape(2150, 3300, 400, 1000, 0.163, 50 / 2300),
    "tiny": Shape(120, 300, 40, 120, 0.163, 0.163),
}
UNCALIBRATED = WatchModel(
    mu0=-0.95, b=0.38, sd=0.6, idiosyncratic=0.5, quality_sd=1.0, skew=0.0, patience=0.3
)
"""The parameters of the small end-to-end check of the specification (4.9), not calibrated to KuaiRec."""
PAPER_SHARE = replace(UNCALIBRATED, mu0=-1.32)
"""Fewer positives: 64 % of the exposures of a static request, as in the tables of the paper."""


def make_short_video(
    size: str | Shape = "full", seed: int = 0, model: WatchModel | None = None
) -> ShortVideoWorld:
    """A world of one of the sizes "full", "small" and "tiny", or of another shape."""
    if isinstance(size, str) and size not in SHAPES:
        raise ConfigError(f"short-video world: expected a size of {', '.join(SHAPES)}, got {size!r}")
    shape = SHAPES[size] if isinstance(size, str) else size
    model = WatchModel() if model is None else model
    _check(shape, seed)
    rng = np.random.default_rng([seed, 16])
    centres = _unit(rng.standard_normal((CATEGORIES, TOPIC)))
    world = ShortVideoWorld(
        seed=seed,
        shape=shape,
        model=model,
        videos=_videos(rng, shape, centres, model),
        viewers=_viewers(rng, shape.n_users, centres, model),
        table=_floats(model.table * rng.standard_normal((AGE_GROUPS, CATEGORIES))),
    )
    return _scaled(world, rng)


def _check(shape: Shape, seed: int) -> None:
    inside = 0 < shape.block_users <= shape.n_users and 0 < shape.block_items <= shape.n_items
    shares = all(0 < share < 1 for share in (shape.density, shape.block_density, shape.block_share))
    if seed < 0 or not inside or not shares:
        raise ConfigError(
            "short-video world: expected a seed from 0, a dense block inside the matrix and shares between 0 and 1, "
            f"got seed {seed!r} and {shape}"
        )


def _videos(rng: np.random.Generator, shape: Shape, centres: Floats, model: WatchModel) -> Videos:
    count = shape.n_items
    weights = 1 / np.sqrt(np.arange(1, CATEGORIES + 1))
    category = rng.choice(CATEGORIES, count, p=weights / weights.sum())
    quality = _qualities(rng, shape, model)
    age = rng.exponential(30.0, count)
    popularity = 0.5 * quality / model.quality_sd + 0.4 * np.log1p(age) + 0.8 * rng.standard_normal(count)
    return Videos(
        category=category.astype(np.int64),
        topic=_near(rng, centres[category]),
        quality=quality,
        log_duration=_floats(rng.normal(np.log(SECONDS), 0.6, count)),
        age=_floats(age),
        log_popularity=_floats((popularity - popularity.mean()) / max(popularity.std(), 1e-9)),
    )


def _viewers(rng: np.random.Generator, count: int, centres: Floats, model: WatchModel) -> Viewers:
    liked = rng.integers(0, CATEGORIES, (count, INTERESTS))
    return Viewers(
        interests=_near(rng, centres[liked]),
        age_group=rng.integers(0, AGE_GROUPS, count),
        preferred=_floats(rng.normal(np.log(SECONDS), model.preferred, count)),
        patience=_floats(rng.normal(0.0, model.patience, count)),
    )


def _qualities(rng: np.random.Generator, shape: Shape, model: WatchModel) -> Floats:
    """One quality per video; the block and the other videos are stratified samples, so that seeds differ little."""
    counts = (shape.block_items, shape.n_items - shape.block_items)
    levels = np.concatenate([(rng.permutation(count) + 0.5) / max(count, 1) for count in counts])
    return _floats(model.quality_sd * _skewed(levels, model.skew))


def _skewed(levels: NDArray[np.float64], skew: float) -> Floats:
    """Quantiles of a distribution of mean 0, sd 1 and skewness -2 * skew: a mirrored gamma, normal for skew 0."""
    if skew <= 0:
        return _floats(ndtri(levels))
    shape = 1 / skew**2
    return _floats((shape - gammaincinv(shape, levels)) / np.sqrt(shape))


def _near(rng: np.random.Generator, centres: Floats) -> Floats:
    """Unit vectors around the given ones."""
    return _unit(centres + 0.2 * rng.standard_normal(centres.shape))


def _unit(vectors: NDArray[np.floating]) -> Floats:
    return _floats(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def _floats(values: object) -> Floats:
    return np.asarray(values, np.float32)


def _scaled(world: ShortVideoWorld, rng: np.random.Generator) -> ShortVideoWorld:
    """The world with appeal and policy standardised, and with the exposure of its shape."""
    users = rng.integers(0, world.n_users, SAMPLE)
    items = rng.integers(0, world.n_items, (SAMPLE, 1))
    world = replace(world, interest_scale=_scale(world.raw_interest(users, items)))
    world = replace(
        world,
        appeal_scale=_scale(world.raw_appeal(users, items)),
        policy_scale=_scale(world.raw_policy(users, items)),
    )
    shares = (world.shape.block_density, world.shape.density)
    logits = world.exposure_logit(users, items)
    return replace(world, intercepts=(_intercept(logits, shares[0]), _intercept(logits, shares[1])))


def _scale(values: Floats) -> Scale:
    return Scale(float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64)))


def _intercept(logits: Floats, share: float) -> float:
    """The intercept with which the mean probability is `share`."""
    return float(brentq(lambda c: float(expit(logits + c).mean()) - share, -40.0, 40.0))
