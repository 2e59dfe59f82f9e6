"""The processor that something was measured on."""

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Processor:
    """Its name, and how much of it was used; no name of a computer."""

    name: str
    cores: int  # that the process may use
    threads: int  # of torch

    def __str__(self) -> str:
        cores, threads = (_counted(*pair) for pair in ((self.cores, "core"), (self.threads, "thread")))
        return f"{self.name}, {cores}, {threads}"


def processor() -> Processor:
    """The processor as it is used now."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Processor(processor_name(), cores, torch.get_num_threads())


def processor_name(facts: Path = Path("/proc/cpuinfo")) -> str:
    """The model name, or the architecture where the system does not say."""
    names = re.findall(r"^model name\s*: (.+)$", facts.read_text(), re.M) if facts.is_file() else []
    return names[0] if names else platform.processor() or platform.machine()


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
