"""Jester's fully observed block: users who rated all 100 jokes, as a small world with known utilities."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shortlist.data.tables.files import File, require_file
from shortlist.errors import DataError
from shortlist.simulate.full_stage.cell_noise import Floats, Rows, cell_uniforms

FILE, JOKES, UNRATED, LARGEST = "jester-data-1.csv", 100, 99.0, 10.0


@dataclass(frozen=True, eq=False)
class JesterWorld:
    """Ratings of users and jokes, scaled to [0, 1]; methods take users [B] and items [K] or [B, K]."""

    utilities: Floats  # [U, 100]
    seed: int = 0

    @property
    def n_users(self) -> int:
        return len(self.utilities)

    @property
    def n_items(self) -> int:
        return int(self.utilities.shape[1])

    def r(self, users: Rows, items: Rows) -> Floats:
        """The utility of cells [B, K]: (rating + 10) / 20."""
        return np.asarray(self.utilities[users[:, None], items], np.float32)

    def labels(self, users: Rows, items: Rows) -> NDArray[np.bool_]:
        """One label per cell with probability r, always the same [B, K]."""
        return np.asarray(cell_uniforms(self.seed, 0, users, items) < self.r(users, items))


def jester_world(path: Path | str, seed: int = 0) -> JesterWorld:
    """The users with a rating of every joke, from a folder or zip with `jester-data-1.csv`."""
    file = require_file(_archive(Path(path)), (FILE,))
    ratings = _ratings(file)
    complete = (ratings != UNRATED).all(axis=1)
    if not complete.any():
        raise DataError(
            f"{file.name}: expected users who rated all {JOKES} jokes, got none of {len(ratings):,}"
        )
    return JesterWorld(((ratings[complete] + LARGEST) / (2 * LARGEST)).astype(np.float32), seed)


def _archive(path: Path) -> Path:
    """The zip inside a folder, where the folder does not hold the table itself."""
    inside = path / "jester-data-1.zip"
    return inside if inside.is_file() else path


def _ratings(file: File) -> NDArray[np.float64]:
    """All ratings [U, 100]; the first column of the file is their number."""
    try:
        with file.opened() as stream:
            table = np.loadtxt(stream, delimiter=",", ndmin=2)
    except ValueError as error:
        raise DataError(f"{file.name}: expected numbers, {error}; download it again") from error
    if table.shape[1] != JOKES + 1:
        raise DataError(
            f"{file.name}:1: expected {JOKES + 1} columns, got {table.shape[1]}; download it again"
        )
    ratings = table[:, 1:]
    wrong = np.flatnonzero(((abs(ratings) > LARGEST) & (ratings != UNRATED)).any(axis=1))
    if len(wrong):
        raise DataError(
            f"{file.name}:{wrong[0] + 1}: expected ratings from -10 to 10 or 99, got another number"
        )
    return ratings
