"""A uniform sample of the requests of a log in bounded memory, for figures that need all candidates at once."""

from dataclasses import dataclass, field

import numpy as np

from shortlist.feedback.record import Array, LoggedRequests, concat

REQUESTS = 5_000
ROWS = 1_000_000  # candidates of all sampled requests


@dataclass
class RequestSample:
    """The requests with the smallest of random numbers so far: at most `most`, with at most `rows` candidates."""

    most: int = REQUESTS
    seed: int = 0
    rows: int = ROWS
    limit: float = 1.0  # the largest random number that can still be in the sample
    parts: list[tuple[LoggedRequests, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng([self.seed, 83])

    def add(self, record: LoggedRequests) -> None:
        """Take the requests of a record whose random numbers are small enough."""
        keys = self._random.random(len(record))
        chosen = np.flatnonzero(keys <= self.limit)
        if len(chosen):
            self.parts.append((record.take(chosen), keys[chosen]))
        counts = [(len(one), one.n_candidates) for one, _ in self.parts]
        if sum(own for own, _ in counts) > 2 * self.most or sum(own for _, own in counts) > 2 * self.rows:
            self._shrink()

    def requests(self) -> LoggedRequests | None:
        """The sample in the order of the log, None where nothing was added."""
        if not self.parts:
            return None
        self._shrink()
        return self.parts[0][0]

    def _shrink(self) -> None:
        record, keys = concat([one for one, _ in self.parts]), np.concatenate([own for _, own in self.parts])
        order = np.argsort(keys)
        fit = int(np.searchsorted(np.cumsum(record.counts[order]), self.rows, side="right"))
        order = order[: max(min(self.most, fit), 1)]
        if len(order) < len(keys):
            self.limit = float(keys[order[-1]])
        kept = np.sort(order)
        self.parts = [(record.take(kept), keys[kept])]
