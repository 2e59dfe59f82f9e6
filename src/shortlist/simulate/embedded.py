"""The embedded data set: a simulated log for a first try, and a smaller one for tests."""

from shortlist.data import Dataset
from shortlist.errors import ConfigError
from shortlist.simulate.log import simulate_log
from shortlist.simulate.make import make_world

SIZES = {  # users, items, categories, events
    "demo": (2000, 1200, 24, 120_000),
    "small": (300, 200, 12, 12_000),
}


def embedded(seed: int = 0, size: str = "demo") -> Dataset:
    """A simulated log of users and films; "demo" takes seconds, "small" less than one."""
    if size not in SIZES:
        raise ConfigError(f"world: expected a size of {', '.join(SIZES)}, got {size!r}")
    n_users, n_items, n_categories, n_events = SIZES[size]
    return simulate_log(make_world(n_users, n_items, n_categories, seed), n_events, seed)
