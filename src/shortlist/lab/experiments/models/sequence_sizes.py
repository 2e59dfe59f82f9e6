"""Widths of sequence models and lengths of their histories, by the recall of validation requests.

`auto` takes its sizes from this table (`shortlist.train.auto.sizes`). The test part is not used. Every size has the
same largest number of epochs and the same early stopping. Seconds of training were measured while other cells ran on
the same machine.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.auto_table import setups_of
from shortlist.lab.experiments.models.cells import Setup, dataset_of, trainer_for
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.progress import Progress, silent
from shortlist.train.auto.sizes import SHORT, history_length, sizes

NAME = "sequence-sizes"
SOURCE = "size of sequence models in train without a recipe"
NEAR = 0.98  # of the best recall
LONG = 0  # length that stands for the one that `auto` takes
WIDTHS: Mapping[str, Mapping[int, Mapping[str, int]]] = {
    "sasrec": {64: {"heads": 2}, 128: {"heads": 2}, 256: {"heads": 4}},
    "gru4rec": {64: {"hidden": 128}, 128: {"hidden": 256}},
}
QUICK_WIDTHS: Mapping[str, Mapping[int, Mapping[str, int]]] = {"sasrec": {8: {}, 16: {}}}


@dataclass(frozen=True, order=True)
class SizedCell:
    """One size of one model on one setup."""

    setup: Setup
    kind: str
    width: int
    length: int
    seed: int

    @property
    def system(self) -> str:
        """The model and its size."""
        return f"{self.kind}, width {self.width}, {self.length or 'long'} history"

    def __str__(self) -> str:
        return f"{self.setup.data}/{self.setup.protocol}/{self.system}/{self.seed}"


def sequence_sizes(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Result:
    """All sizes on all setups of the table of `auto`."""
    began, is_quick = start(), profile == "quick"
    setups, cache = setups_of(data, profile, NAME), AnswerCache.open(cache_file)
    cells = [cell for seed in seeds for setup in setups for cell in cells_on(setup, seed, is_quick)]
    run = partial(run_sized, folder=data, is_quick=is_quick)
    failed = run_cells(
        chosen_cells(cells, only), cache, run, partial(settings_of, is_quick=is_quick), jobs, progress
    )
    found = [cell for cell in cells if cache.has(str(cell))]
    missing = {str(cell): "not run" for cell in cells if cell not in found}
    return result(
        NAME,
        profile,
        seeds,
        began,
        [one for cell in found if cell.seed == seeds[0] for one in _rows(cell, seeds, cache)],
        [one for setup in setups for one in _claims([cell for cell in found if cell.setup == setup], cache)],
        settings=cache.settings,
        training=cache.training,
        skipped={**missing, **failed},
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def cells_on(setup: Setup, seed: int, is_quick: bool) -> list[SizedCell]:
    """All widths with long histories, and the usual one with short histories."""
    widths = QUICK_WIDTHS if is_quick else WIDTHS
    long = [SizedCell(setup, kind, width, LONG, seed) for kind, own in widths.items() for width in own]
    return [*long, *(SizedCell(setup, kind, min(own), SHORT, seed) for kind, own in widths.items())]


def settings_of(cell: SizedCell, is_quick: bool) -> dict[str, Any]:
    """What decides the answer of a cell."""
    widths = QUICK_WIDTHS if is_quick else WIDTHS
    return {"width": cell.width, "length": cell.length, **widths[cell.kind][cell.width]}


def run_sized(cell: SizedCell, folder: Path | None, is_quick: bool) -> tuple[Tensor, dict[str, Any]]:
    """The best recall on the validation requests [1], with seconds, epochs and what `auto` would take."""
    dataset = dataset_of(cell.setup, cell.seed, folder, is_quick)
    split, settings = dataset.split(), settings_of(cell, is_quick)
    long = history_length(split.train.lengths)
    length = settings.pop("length") or long
    trainer = trainer_for(cell.kind, is_quick).with_settings(**settings, max_history=length)
    began = time.perf_counter()
    model = trainer.learn(split.train, split.valid, cell.seed, catalog=dataset.catalog)
    first = sizes(cell.kind, len(split.train), long, gpu=True)[0]
    facts = {
        "seconds": time.perf_counter() - began,
        "epochs": len(model.validation),
        "chosen": cell.width == first.get("width", min(WIDTHS[cell.kind])) and cell.length == LONG,
        "max_history": length,
    }
    return torch.tensor([max(model.validation)]), facts


def _rows(cell: SizedCell, seeds: Sequence[int], cache: AnswerCache) -> list[Row]:
    names = [str(SizedCell(cell.setup, cell.kind, cell.width, cell.length, seed)) for seed in seeds]
    known = [name for name in names if cache.has(name)]
    title = f"{cell.system} on {cell.setup}"
    return [
        row(title, "recall@20, validation", [float(cache.tensors[name]) for name in known]),
        row(title, "training seconds", [float(cache.facts[name]["seconds"]) for name in known]),
        row(title, "items of a history", [float(cache.facts[name]["max_history"]) for name in known]),
    ]


def _claims(cells: Sequence[SizedCell], cache: AnswerCache) -> list[Claim]:
    """The size that `auto` takes is near the best one, for each model of a setup."""
    made = []
    for kind, seed in dict.fromkeys((cell.kind, cell.seed) for cell in cells):
        own = {
            cell: float(cache.tensors[str(cell)]) for cell in cells if (cell.kind, cell.seed) == (kind, seed)
        }
        best = max(own, key=lambda cell: own[cell])
        for cell, recall in own.items():
            if cache.facts[str(cell)]["chosen"]:
                share = recall / max(own[best], 1e-9)
                name = f"size of {kind} is near the best on {cell.setup}, seed {seed}"
                note = f"share of the recall of {best.system}; at least {NEAR}"
                made.append(claim(name, SOURCE, share >= NEAR, share, note))
    return made
