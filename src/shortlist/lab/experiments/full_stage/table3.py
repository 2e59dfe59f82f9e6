"""Retrieval and pre-rank models trained with every objective, on static requests of a three-stage funnel.

All arms have the same number of negatives and at most the same number of optimizer steps (at full size an arm stops
five epochs after its best one); temperature, learning rate and epoch are chosen on validation for every arm. Joint
objectives train the model of the next stage with that of the table. Test positives are the exposed positives of one
request per user; "masked" columns do not list train positives, which leaks by elimination where requests, not cells,
are split. Utility is the expected number of positives in the slots of a live funnel that retrieves with the arm;
"tight" has a fifth of the retrieval capacity. Claims are the directions of the paper; each holds if the 95 % interval
of its paired difference over seeds is above 0.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from shortlist.lab.experiments.full_stage.arm_table import SOURCE, UTILITIES, ArmTable, Direction
from shortlist.lab.experiments.full_stage.arms import PRERANK, RETRIEVAL, TABLE3, Arm
from shortlist.lab.experiments.full_stage.cells import Place, filled, world_of, worlds_of
from shortlist.lab.experiments.full_stage.order import order_agreement
from shortlist.lab.experiments.full_stage.stage_data import CELLS, REQUESTS
from shortlist.lab.result import Result, result, start
from shortlist.progress import Progress, silent

PAPER = f"{SOURCE}, table 3"
CONTROL = "specification 4.8"
EXPECTED: Mapping[str, tuple[tuple[str, str, str], ...]] = {  # high, low, source
    RETRIEVAL: (
        ("SSM", "BPR", PAPER),
        ("RankFlow 1", "SSM", PAPER),
        ("FS-RN", "RankFlow 1", PAPER),
        ("FS-LR", "FS-RN", PAPER),
        ("FS-LR", "RankFlow 1", PAPER),
        ("FS-LR", "SSM", PAPER),
        ("FS-RN", "SSM", PAPER),
        ("BPR", "random", CONTROL),
        ("oracle", "FS-LR", CONTROL),
    ),
    PRERANK: (
        ("RankFlow 1", "BCE", PAPER),
        ("FS-LR", "RankFlow 1", PAPER),
        ("FS-LR", "BCE", PAPER),
        ("FS-LR", "BCE, stage negatives", CONTROL),
        ("BCE", "random", CONTROL),
        ("oracle", "FS-LR", CONTROL),
    ),
}
LIVE = (("FS-LR", "SSM"), ("FS-RN", "SSM"))  # does an offline gain carry over to a live funnel?


def fsltr_table3(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "fsltr-table3",
    size: str = "full",
) -> Result:
    """All arms of both stages in World A, and in World B where `data` holds its ratings.

    `size` is the world of the full profile. `only` cells WORLD/PROTOCOL/STAGE/ARM/SEED under these patterns are run.
    """
    began = start()
    worlds = worlds_of(world_of(profile, name, size), data)
    arms = {place: own for one in worlds for place, own in places_of(one).items()}
    cache, cells, skipped = filled(arms, seeds, cache_file, only, jobs, progress, data)
    table, expected = ArmTable.of(cells, cache), directions(arms)
    return result(
        name,
        profile,
        seeds,
        began,
        [*table.rows(), *order_agreement(table), *table.temperature_rows()],
        table.claims(expected),
        settings=cache.settings,
        x="temperature",
        tests=table.tests(expected),
        skipped=skipped,
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def places_of(world: str) -> dict[Place, tuple[Arm, ...]]:
    """Both stages with requests split, and retrieval with cells split."""
    stages = {Place(world, REQUESTS, stage): arms for stage, arms in TABLE3.items()}
    return {**stages, Place(world, CELLS, RETRIEVAL): TABLE3[RETRIEVAL]}


def directions(places: Mapping[Place, Sequence[Arm]]) -> list[Direction]:
    """What the paper finds at every place, and the same for the utility of live funnels."""
    offline = [Direction(place, *one) for place in places for one in EXPECTED[place.stage]]
    live = [
        Direction(place, *pair, CONTROL, column)
        for place in places
        if place.stage == RETRIEVAL
        for pair in LIVE
        for column in UTILITIES
    ]
    return offline + live
