"""Small scorers and rows for the tests of node scorers."""

from itertools import product

import torch

from shortlist.models.nodes import ScorerConfig, make_scorer

OPTIONS = [
    {"history": history, "pool": pool, "norm": norm, "output": output}
    for history, pool, norm, output in product(
        ("ancestor", "item"), ("sum", "mean"), ("none", "layer", "batch"), ("linear", "bn_prelu")
    )
]
SIZES = [
    {"width": 8, "hidden": 6, "layers": (16, 9, 8), "windows": (3, 2, 1, 1)},
    {"width": 5, "hidden": 7, "layers": (10, 4, 3), "windows": (1, 5)},
    {"width": 24, "hidden": 36, "layers": (128, 64, 24)},
    {"width": 1, "hidden": 1, "layers": (1, 2, 1), "windows": (70,)},
]


def small(**changes):
    """A small configuration with widely spread scores."""
    chosen = {"n_rows": 40, "n_items": 30, "spread": 1.0} | SIZES[0] | changes
    return ScorerConfig(**chosen)


def perturbed(config, seed=0):
    """A scorer with all weights and statistics moved away from their initial values."""
    scorer = make_scorer(config, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for weight in scorer.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.1)
        for name, buffer in scorer.named_buffers():
            if name.endswith("running_mean"):
                buffer.add_(torch.randn(buffer.shape, generator=generator), alpha=0.3)
            if name.endswith("running_var"):
                buffer.mul_(torch.rand(buffer.shape, generator=generator) + 0.5)
    return scorer


def rows_of(config, users=4, candidates=5, length=None, seed=0):
    """Histories with padding inside, the first all padding, and candidates."""
    generator = torch.Generator().manual_seed(seed)
    table = config.n_items if config.history == "item" else config.n_rows
    length = config.max_history if length is None else length
    history = torch.randint(0, table, (users, length), generator=generator)
    history[torch.rand(users, length, generator=generator) < 0.3] = -1
    history[0] = -1
    return history, torch.randint(0, config.n_rows, (users, candidates), generator=generator)
