"""Training instances on the device: positions in one tensor of events."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from shortlist.data import Interactions, Windows, sliding
from shortlist.train.models.trainer import may_be_target, strengths_on


@dataclass(frozen=True, eq=False)
class Instances:
    """Histories with their next item; the target of instance i is the event at `ends[i]`."""

    items: Tensor  # int32 [E]
    starts: Tensor  # int64 [M] first event of the user
    ends: Tensor  # int64 [M] the target event
    lasts: Tensor  # int64 [M] last event of the user
    max_history: int
    strengths: Tensor | None = None  # float32 [E] weights of events, mean 1; None: all are equal

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, rows: Tensor) -> "Instances":
        """Only these instances."""
        return replace(self, starts=self.starts[rows], ends=self.ends[rows], lasts=self.lasts[rows])

    def histories(self, rows: Tensor) -> Tensor:
        """The last `max_history` items before the target, newest last [m, K], -1 = padding."""
        at = self.ends[rows, None] - torch.arange(self.max_history, 0, -1, device=rows.device)  # [m, K]
        items = self.items[at.clamp(min=0)].to(torch.int64)
        return torch.where(at >= self.starts[rows, None], items, -1)

    def targets(self, rows: Tensor) -> Tensor:
        """The next item [m]."""
        return self.items[self.ends[rows]].to(torch.int64)

    def events_ahead(self, rows: Tensor, ahead: int, generator: torch.Generator) -> Tensor:
        """The event of one of the next `ahead` items of the user, sampled uniformly [m]; the next one for 1."""
        if ahead == 1:
            return self.ends[rows]
        available = (self.lasts[rows] - self.ends[rows]).clamp(max=ahead - 1) + 1
        offset = torch.randint(1 << 62, available.shape, generator=generator, device=rows.device) % available
        return self.ends[rows] + offset


def drop_history(histories: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Histories [U, K] with a random share of their items replaced by padding."""
    if not share:
        return histories
    random = torch.rand(histories.shape, generator=generator, device=histories.device)
    return histories.masked_fill(random < share, -1)


def instances_of(
    events: Interactions, max_history: int, min_history: int, which: str, device: torch.device, ahead: int = 1
) -> Instances:
    """Every window with enough history and an example ahead, or only the last one of each user."""
    windows = windows_of(events, max_history, min_history, which, ahead)
    ends = windows.ends.astype(np.int64)
    users = events.users[ends].astype(np.int64)
    columns = (events.starts[users], ends, events.starts[users + 1] - 1)
    starts, stops, lasts = (torch.from_numpy(np.ascontiguousarray(one)).to(device) for one in columns)
    items = torch.from_numpy(events.items.astype(np.int32)).to(device)
    return Instances(items, starts, stops, lasts, max_history, strengths_on(events, device))


def windows_of(
    events: Interactions, max_history: int, min_history: int, which: str, ahead: int = 1
) -> Windows:
    """The windows of `instances_of`."""
    windows = sliding(events, max_history + 1, min_history)
    if (some := may_be_target(events, ahead)) is not None:
        windows = replace(windows, ends=windows.ends[some[windows.ends]])
    return _last(windows) if which == "last" else windows


def _last(windows: Windows) -> Windows:
    users = windows.events.users[windows.ends]
    newest = np.ones(len(windows), bool)
    newest[:-1] = users[1:] != users[:-1]
    return Windows(windows.events, windows.ends[newest], windows.length)
