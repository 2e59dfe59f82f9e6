"""Small mixtures for tests."""

import torch
from torch import Tensor

from shortlist.models.mixture import Gate, PoolMixture, TwoTowerExperts, feature_subsets

D, N, A, WIDTH = 6, 3, 8, 4


def small(
    kind: str = "user_item", seed: int = 0, pools: Tensor | None = None, **settings: object
) -> PoolMixture:
    """A mixture with a gate away from its initial values, in float64."""
    torch.manual_seed(seed)
    features = torch.randn(A, 3) if kind == "features" else None
    gate = Gate(kind, N, A, D, item_features=features, pools=pools)
    experts = TwoTowerExperts(feature_subsets(D, N, 4, seed=seed), A, WIDTH)
    made = PoolMixture(experts, gate, 0.4, **settings).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for weights in made.gate.parameters():
            weights.normal_()
    return made


def examples(count: int = 20, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Contexts, items and outcomes 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    contexts = torch.randn(count, D, generator=generator, dtype=torch.float64)
    items = torch.randint(0, A, (count,), generator=generator)
    return contexts, items, torch.randint(0, 2, (count,), generator=generator).double()


def partition() -> Tensor:
    """A pool for each nominator [A, N]."""
    return torch.nn.functional.one_hot(torch.arange(A) % N, N).bool()
