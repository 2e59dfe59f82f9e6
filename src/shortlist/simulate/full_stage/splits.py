"""Train, validation and test requests: split by request (spec 4.1), or by cells (spec 4.5)."""

from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.simulate.full_stage.cell_noise import cell_uniforms
from shortlist.simulate.full_stage.static_requests import (
    RequestSizes,
    ScoredPools,
    StaticRequests,
    static_requests,
)

TEST, VALIDATION, TRAIN, FOLD = 101, 102, 103, 104  # added to the seed: requests of a split are their own


@dataclass(frozen=True, eq=False)
class RequestSplits:
    """One test and one validation request of every user, and the train requests."""

    test: StaticRequests
    validation: StaticRequests
    train: StaticRequests


def make_splits(
    pools: ScoredPools, sizes: RequestSizes | None = None, n_train: int = 8, seed: int = 0
) -> RequestSplits:
    """The test request first; its positives leave the pool; the validation request, likewise; then train requests.

    Held-out positives are never train positives although they are strong items: a model that excludes train positives
    finds the others by elimination. Do not exclude them, or use `make_cell_splits`.
    """
    _check(n_train)
    test = static_requests(pools, sizes, seed=_seed(seed, TEST))
    pools = _without_positives(pools, test)
    validation = static_requests(pools, sizes, seed=_seed(seed, VALIDATION))
    pools = _without_positives(pools, validation)
    return RequestSplits(test, validation, static_requests(pools, sizes, n_train, _seed(seed, TRAIN)))


def make_cell_splits(
    pools: ScoredPools,
    sizes: RequestSizes | None = None,
    n_train: int = 8,
    seed: int = 0,
    *,
    test_share: float = 0.2,
    validation_share: float = 0.1,
) -> RequestSplits:
    """Every cell belongs to one split, at random; all requests are drawn from the whole pool.

    A request keeps only the cells of its split: held-out cells take part in train requests, but their labels are hidden
    and they are dropped from the lists.
    """
    _check(n_train)
    if not (test_share > 0 and validation_share > 0 and test_share + validation_share < 1):
        raise ConfigError(
            "cell split: expected positive shares with a sum below 1, "
            f"got test_share {test_share!r} and validation_share {validation_share!r}"
        )
    edges = (0.0, test_share, test_share + validation_share, 1.0)
    parts = [
        _inside(static_requests(pools, sizes, count, _seed(seed, salt)), seed, edges[at], edges[at + 1])
        for at, (salt, count) in enumerate(((TEST, 1), (VALIDATION, 1), (TRAIN, n_train)))
    ]
    return RequestSplits(*parts)


def _inside(requests: StaticRequests, seed: int, low: float, high: float) -> StaticRequests:
    """Only the cells whose random number lies in [low, high)."""
    numbers = cell_uniforms(_seed(seed, FOLD), 0, requests.users, requests.item_id[:, None])[:, 0]
    return requests.where((numbers >= low) & (numbers < high))


def _without_positives(pools: ScoredPools, requests: StaticRequests) -> ScoredPools:
    cells = pools.pools.cells_of(requests.users[requests.positives], requests.item_id[requests.positives])
    return pools.where(~cells)


def _seed(seed: int, salt: int) -> int:
    return (seed << 8) + salt


def _check(n_train: int) -> None:
    if n_train < 1:
        raise ConfigError(f"splits: expected at least 1 train request per user, got {n_train!r}")
