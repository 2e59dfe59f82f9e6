"""Available memory is the least of the machine's and its control group's."""

import pytest
import torch

from shortlist.train.preparation.memory import available_memory, in_words

CPU = torch.device("cpu")


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MEMINFO = {"proc/meminfo": "MemTotal:       2000 kB\nMemAvailable:   1000 kB\n"}
GROUP = {"sys/fs/cgroup/memory.max": "900000\n", "sys/fs/cgroup/memory.current": "500000\n"}
STAT = "anon 1\ninactive_file 200000\nactive_file 7\ntotal_inactive_file 10000\n"
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
        (MEMINFO | GROUP | {"sys/fs/cgroup/memory.stat": STAT}, 600_000),
        (MEMINFO | OLD | {"sys/fs/cgroup/memory/memory.stat": STAT}, 310_000),
    ],
)
def test_least_of_machine_and_control_group_without_cached_files(tmp_path, files, expected):
    write(tmp_path, files)
    assert available_memory(CPU, tmp_path) == expected


def test_check_is_turned_off_by_the_environment(tmp_path, monkeypatch):
    write(tmp_path, MEMINFO)
    monkeypatch.setenv("SHORTLIST_MEMORY_CHECK", "off")
    assert available_memory(CPU, tmp_path) is None


def test_this_machine_has_memory():
    assert available_memory(CPU) is None or available_memory(CPU) > 0


def test_bytes_in_words():
    assert [in_words(count) for count in (10, 1000, 13_500_000_000, 2 * 10**12)] == [
        "10 bytes", "1 kB", "13.5 GB", "2.0 TB",
    ]  # fmt: skip
