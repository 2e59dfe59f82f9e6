"""The first use of a device and of an optimizer loads code: before anything is timed."""

from functools import cache

import torch


@cache
def warm_up(device: torch.device) -> None:
    """One optimizer step of a small recurrent network."""
    network = torch.nn.GRU(2, 2, device=device)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.zeros(3, 1, 2, device=device))[0].sum().backward()
    optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
