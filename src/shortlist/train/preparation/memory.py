"""How much memory there is for a training."""

import os
from pathlib import Path

import torch

KILO = 1024
VARIABLE = "SHORTLIST_MEMORY_CHECK"  # environment variable: "off" trains whatever the estimate says


def available_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that can still be allocated: of the GPU, or of the machine and its control group.

    None if it is unknown or SHORTLIST_MEMORY_CHECK=off. Cached files count as available: the system drops them.
    """
    if os.environ.get(VARIABLE) == "off":
        return None
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = [_of_machine(root), _of_group(root), _of_group_v1(root)]
    return min((one for one in known if one is not None), default=None)


def in_words(count: int) -> str:
    """A number of bytes with a unit, such as 13.5 GB."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def _of_machine(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * KILO
    return None


def _of_group(root: Path) -> int | None:
    """What is left of the limit of control groups, version 2."""
    folder = root / "sys/fs/cgroup"
    return _left(folder / "memory.max", folder / "memory.current", folder / "memory.stat", "inactive_file")


def _of_group_v1(root: Path) -> int | None:
    folder = root / "sys/fs/cgroup/memory"
    limit, used = folder / "memory.limit_in_bytes", folder / "memory.usage_in_bytes"
    return _left(limit, used, folder / "memory.stat", "total_inactive_file")


def _left(limit: Path, used: Path, stat: Path, cached: str) -> int | None:
    """What is left of a limit, cached files not counted as used; None without a limit."""
    values = [(_lines(path) or [""])[0].strip() for path in (limit, used)]
    if not all(map(str.isdecimal, values)):
        return None
    dropped = sum(int(line.split()[1]) for line in _lines(stat) if line.split()[:1] == [cached])
    return max(int(values[0]) - int(values[1]) + dropped, 0)


def _lines(path: Path) -> list[str]:
    return path.read_text("ascii").splitlines() if path.is_file() else []
