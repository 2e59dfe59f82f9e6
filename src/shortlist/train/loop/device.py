"""The device that training runs on."""

import torch

from shortlist.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda")


def device_of(name: str) -> torch.device:
    """The device for "auto" (a GPU if there is one), "cpu" or "cuda"."""
    if name not in DEVICES:
        raise ConfigError(f'device must be "auto", "cpu" or "cuda", got {name!r}')
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigError('device is "cuda", but torch finds no GPU; set "auto" or "cpu"')
    return torch.device("cuda" if available and name != "cpu" else "cpu")
