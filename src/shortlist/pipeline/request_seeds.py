"""The seeds of requests: stages that sample draw differently for every user."""

import hashlib
from collections.abc import Sequence


def request_seeds(seeds: Sequence[int], users: Sequence[int | str | None]) -> list[int]:
    """The seed of each request, mixed with the id of its user: one seed gives all users independent draws.

    It depends on the id alone, not on the row of the user, so it is the same after every training. A request without
    a user keeps its seed.
    """
    return [
        seed if user is None else seed ^ _number_of(user) for seed, user in zip(seeds, users, strict=True)
    ]


def _number_of(user: int | str) -> int:
    """64 bits from an id; 5 and "5" are the same user."""
    return int.from_bytes(hashlib.blake2b(str(user).encode(), digest_size=8).digest(), "little", signed=True)
