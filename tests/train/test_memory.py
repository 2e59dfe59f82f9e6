"""Available memory is the least of the machine's and its control group's."""

import pytest
import torch

from shortlist.train.memory import available_memory, in_words

CPU = torch.device("cpu")


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n"}
GROUP = {"sys/fs/cgroup/memory.max": "900000\n", "sys/fs/cgroup/memory.current": "500000\n"}
OLD = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "800000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "500000\n",
}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        (MEMINFO, 1_024_000),
        (MEMINFO | GROUP, 400_000),
        (MEMINFO | OLD, 300_000),
        (MEMINFO | GROUP | {"sys/fs/cgroup/memory.max": "max\n"}, 1_024_000),
    ],
)
def test_least_of_machine_and_control_group(tmp_path, files, expected):
    write(tmp_path, files)
    assert available_memory(CPU, tmp_path) == expected


def test_this_machine_has_memory():
    assert available_memory(CPU) is None or available_memory(CPU) > 0


def test_bytes_in_words():
    assert [in_words(count) for count in (10, 1000, 13_500_000_000, 2 * 10**12)] == [
        "10 bytes", "1 kB", "13.5 GB", "2.0 TB",
    ]  # fmt: skip
