"""Settings of a closed loop."""

from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.settings import check_fields, setting

DRIFTS = ("none", "seed", "label", "beta")
CHANNELS = (1, 5)


@dataclass(frozen=True)
class LoopSettings:
    """The funnel of a closed loop, its rounds, and what changes at one of them."""

    capacities: tuple[int, ...] = setting(
        (1000, 200, 50, 6), "Items that retrieval, pre-ranking, ranking and re-ranking keep.", least=1
    )
    channels: int = setting(
        1, "Retrieval channels: the trained one alone (1), or beside four fixed ones (5).", least=1, most=5
    )
    share: float = setting(
        0.2, "Share of the retrieved items from the trained channel of five.", least=0, most=1
    )
    explore: float = setting(0.01, "Share of the retrieved items that are random.", least=0, most=1)
    beta: float = setting(
        0.0, "Boost of log-duration in the rank score; negative prefers short videos.", least=-100, most=100
    )
    requests: int = setting(0, "Requests per round; 0 = one per user.", least=0)
    rounds: int = setting(10, "Rounds that count.", least=1)
    warm: int = setting(4, "Rounds with random retrieval before them.", least=1)
    window: int = setting(4, "Latest rounds whose log a stage is trained from.", least=1)
    drift: str = setting("none", "What replaces the rank model at `drift_round`.", choices=DRIFTS)
    drift_round: int = setting(5, "Round of the change, from 0.", least=0)
    drift_beta: float = setting(2.0, "Boost after a change of kind beta.", least=-100, most=100)

    def __post_init__(self) -> None:
        check_fields(self, "closed loop")
        falls = list(self.capacities) == sorted(self.capacities, reverse=True)
        if len(self.capacities) != 4 or not falls:
            raise ConfigError(
                f"closed loop: expected four capacities that never grow, got {self.capacities}; one per stage"
            )
        if self.channels not in CHANNELS:
            raise ConfigError(f"closed loop: expected 1 or 5 channels, got {self.channels}")

    @property
    def n_random(self) -> int:
        """Random items per request."""
        return round(self.explore * self.capacities[0])

    @property
    def channel_sizes(self) -> tuple[int, ...]:
        """Items that each channel returns: the trained one first, then the fixed ones."""
        left = self.capacities[0] - self.n_random
        if self.channels == 1:
            return (left,)
        own = max(round(self.share * self.capacities[0]), 1)
        return own, *[max((left - own) // (self.channels - 1), 1)] * (self.channels - 1)

    def drifted(self, number: int) -> bool:
        """Whether the change has happened in a round."""
        return self.drift != "none" and number >= self.drift_round
