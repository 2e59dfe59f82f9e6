"""Build, save, load, search and update a large tree, in a separate process to measure its peak memory."""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from shortlist.artifact.store import Lineage, load, save
from shortlist.index.tree import Tree, TreeIndex, delete, grow, insert, n_rows, random_order, search
from shortlist.lab.bench.data_job import peak_bytes
from shortlist.models.nodes import ScorerConfig, make_scorer
from shortlist.nominate.tree import TreeNominator

SPARE = 0.02  # free slots for insertions
FILE = "tree.safetensors"
Made = TypeVar("Made")


def large_index(items: int, branch: int, seed: int, spare: float = 0.0, width: int = 24) -> TreeIndex:
    """Items in random order with an untrained attention scorer; leaf vectors belong to items."""
    tree = grow(random_order(items, seed), items, branch, spare)
    config = ScorerConfig(n_rows(tree.shape, items, "item"), width=width)
    return TreeIndex(tree, make_scorer(config, seed).eval(), "item")


def life(items: int, changes: int, seed: int, branch: int = 2, width: int = 24) -> dict[str, float]:
    """Build, save, load, search, insert and delete `changes` items; seconds of each, and the share still found."""
    seconds: dict[str, float] = {}

    def timed(name: str, job: Callable[[], Made]) -> Made:
        began = time.perf_counter()
        made = job()
        seconds[f"{name}_seconds"] = time.perf_counter() - began
        return made

    generator = torch.Generator().manual_seed(seed)
    history = torch.randint(items, (1, 69), generator=generator)
    index = timed("build", lambda: large_index(items, branch, seed, SPARE, width))
    before = search(index, history, 20).items
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        timed("save", lambda: _save(index, Path(folder, "tree")))
        index = timed("load", lambda: _load(Path(folder, "tree")))
    same = torch.equal(timed("search", lambda: search(index, history, 20)).items, before)
    old = torch.randperm(items, generator=generator)
    added, removed, near = items + torch.arange(changes), old[:changes], old[changes : 2 * changes]
    index = timed("insert", lambda: insert(index, added, near))
    index = timed("delete", lambda: delete(index, removed))
    search(index, history, 20)
    found = findable(index.tree, torch.cat([old[changes:], added])) * (index.tree.n_live == items)
    return {**seconds, "same_answer": float(same), "survivors_found": found, "peak_bytes": peak_bytes()}


def findable(tree: Tree, items: Tensor) -> float:
    """The share of items whose leaf holds them and is under a live node at every level."""
    leaves, shape = tree.leaves(items), tree.shape
    right = (leaves >= 0) & (tree.item_of_leaf[leaves] == items)
    for level in range(shape.height + 1):
        right &= tree.live(level)[shape.ancestor(leaves.clamp(min=0), level)]
    return float(right.float().mean())


def _save(index: TreeIndex, folder: Path) -> None:
    save(folder, "stage", {FILE: TreeNominator(index).tensors()}, Lineage())


def _load(folder: Path) -> TreeIndex:
    settings: dict[str, Any] = {"beam": 150}
    return TreeNominator.build(settings, load(folder, "stage").tensors(FILE)).index


def main(items: str, changes: str, seed: str) -> None:
    """Run the job and print its measurements as JSON."""
    sys.stdout.write(json.dumps(life(int(items), int(changes), int(seed))))


if __name__ == "__main__":
    main(*sys.argv[1:])
