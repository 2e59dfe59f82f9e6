"""Where training runs."""

import torch

from shortlist.errors import ConfigError


def device_of(word: str) -> torch.device:
    """The device meant by "auto" (a GPU when there is one), "cpu" or "cuda"."""
    if word not in ("auto", "cpu", "cuda"):
        raise ConfigError(f'device must be "auto", "cpu" or "cuda", got {word!r}')
    here = torch.cuda.is_available()
    if word == "cuda" and not here:
        raise ConfigError('device is "cuda", but torch finds no GPU here; say "auto" or "cpu"')
    return torch.device("cuda" if here and word != "cpu" else "cpu")
