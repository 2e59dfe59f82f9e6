"""Settings of the gradient training of a mixture."""

from dataclasses import dataclass

from shortlist.settings import check_fields, setting

OBJECTIVES = ("likelihood", "item-likelihood", "mean-squares")


@dataclass(frozen=True)
class PoolTraining:
    """Adam on a mixture of nominators.

    `likelihood`: of the mixture. `item-likelihood`: responsibilities are averaged over the examples of an item before
    experts and gate learn from them, so that nominators share out items and not outcomes. `mean-squares`: squared error
    of the mixture mean, without competition.
    """

    objective: str = setting("likelihood", "What is trained.", choices=OBJECTIVES)
    epochs: int = setting(20, "Largest number of epochs.", least=1, most=100_000)
    batch_size: int = setting(2000, "Training examples per step.", least=1, most=10_000_000)
    learning_rate: float = setting(5e-3, "Learning rate of Adam.", least=1e-9, most=10)
    gate_rate: float = setting(1.0, "Learning rate of the gate over that of the experts.", least=0, most=100)
    weight_decay: float = setting(1e-5, "Weight decay of item vectors.", least=0, most=10)
    balance: float = setting(1e-2, "Weight of the loss that spreads examples over nominators.", least=0)
    entropy: float = setting(
        0.0, "Weight of the gate's entropy at the start; it falls to 0 within `annealed`.", least=0
    )
    widening: float = setting(
        2.0, "Factor of sigma at the start; it falls to 1 within `annealed`.", least=1, most=100
    )
    annealed: float = setting(
        1 / 3, "Share of the epochs in which widening and entropy fall.", least=0, most=1
    )
    item_memory: float = setting(
        0.9, "Share of an item's mean responsibilities that a batch keeps (item-likelihood).", least=0, most=1
    )
    patience: int = setting(5, "Epochs without improvement before training stops.", least=1, most=100_000)
    restarts: int = setting(
        3, "Trainings from different initial values; the best is kept.", least=1, most=100
    )
    seed: int = setting(0, "Seed of initial values and batches.", least=0)

    def __post_init__(self) -> None:
        check_fields(self, "pools")
