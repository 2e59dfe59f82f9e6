"""Settings of a simulated log."""

from dataclasses import dataclass

from shortlist.errors import ConfigError
from shortlist.settings import check_fields, setting

STAGES = ("retrieval", "prerank", "rank", "rerank")  # names that stages of a recipe can have too


@dataclass(frozen=True)
class SimulationSettings:
    """The requests of a simulated service and the funnel that answers them."""

    requests: int = setting(10_000, "Number of requests.", least=1)
    days: float = setting(3.0, "Days over which the requests are spread evenly.", least=0.001, most=3650)
    history: int = setting(
        30, "Events per user before the first request, at most; MovieLens has its own.", least=1
    )
    views: float = setting(0.9, "Probability that a served item is shown.", least=0, most=1)
    capacities: tuple[int, ...] = setting(
        (1000, 200, 50, 6), "Items that retrieval, pre-ranking, ranking and re-ranking keep.", least=1
    )
    noise: tuple[float, ...] = setting(
        (2.0, 1.5, 1.0, 0.5), "Error of the score of each stage, in logits of the utility.", least=0
    )
    random: float = setting(0.02, "Share of the retrieved items that are random.", least=0, most=1)

    def __post_init__(self) -> None:
        check_fields(self, "simulate")
        if len(self.capacities) != len(STAGES) or len(self.noise) != len(STAGES):
            raise ConfigError(
                f"simulate: expected a capacity and a noise for each of {', '.join(STAGES)}, got {self.capacities} "
                f"and {self.noise}"
            )
        if list(self.capacities) != sorted(self.capacities, reverse=True):
            raise ConfigError(f"simulate: expected capacities that never grow, got {self.capacities}")
