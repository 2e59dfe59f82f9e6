"""Which negatives and labels of the training lists matter in retrieval: tables 4 and 5 of the paper, and ladders.

Table 4 leaves out strata of negatives; labels of the others become consecutive again. The paper's ablations have fewer
negatives than the complete lists, so one more arm without stage negatives has as many. Table 5 changes the numbers of
rank, pre-rank and random negatives. Both are trained with LambdaRank. The ladders change labels, for RankNet and
LambdaRank: exposed negatives below rank negatives, all negatives 0, or (LambdaRank) a higher top label. Temperature,
learning rate and epoch are chosen on validation for every arm. Each claim holds if the 95 % interval of its paired
difference over seeds is above 0.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from shortlist.lab.experiments.full_stage.arm_table import SOURCE, ArmTable, Direction
from shortlist.lab.experiments.full_stage.arms import ABLATIONS, LADDER_ARMS, MIXTURES, RETRIEVAL, Arm
from shortlist.lab.experiments.full_stage.cells import Place, filled, world_of, worlds_of
from shortlist.lab.experiments.full_stage.stage_data import REQUESTS
from shortlist.lab.result import Result, result, start
from shortlist.progress import Progress, silent

COMPLETE = "FS-LR"
STAGE = "FS-LR without stage negatives"
PARTS = ("exposed", "rank", "pre-rank")
TABLE4, TABLE5 = f"{SOURCE}, table 4", f"{SOURCE}, table 5"
LADDER = "specification 4.8, E5"
ARMS: Mapping[str, tuple[Arm, ...]] = {
    "fsltr-table4": ABLATIONS,
    "fsltr-table5": MIXTURES,
    "fsltr-ladder": LADDER_ARMS,
}
EXPECTED: Mapping[str, tuple[tuple[str, str, str], ...]] = {  # high, low, source
    "fsltr-table4": (
        *((COMPLETE, f"FS-LR without {part} negatives", TABLE4) for part in (*PARTS, "stage")),
        *((f"FS-LR without {part} negatives", STAGE, TABLE4) for part in PARTS),
        (COMPLETE, f"{STAGE}, 5 negatives", "as many negatives"),
    ),
    "fsltr-table5": tuple(
        (f"FS-LR {high}", f"FS-LR {low}", TABLE5)
        for high in ("1,1,2", "1,2,1")
        for low in ("1,1,1", "2,1,1", "1,1,3", "1,2,3")
    ),
    "fsltr-ladder": (
        *((arm, f"{arm}, binary", LADDER) for arm in ("FS-RN", "FS-LR")),
        *((f"{arm}, low-exposed-negative", arm, LADDER) for arm in ("FS-RN", "FS-LR")),
        ("FS-LR, high-positive", "FS-LR", f"{SOURCE}, labels 0, 1, 2, 3, 4, 6"),
    ),
}


def fsltr_negatives(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "fsltr-table4",
    size: str = "full",
    table: str | None = None,
) -> Result:
    """Table 4, table 5 or ladders in World A, and in World B where `data` holds its ratings.

    `size` is the world of the full profile. `only` cells WORLD/PROTOCOL/STAGE/ARM/SEED under these patterns are run.
    """
    began = start()
    chosen = table or name
    worlds = worlds_of(world_of(profile, name, size), data)
    arms = {Place(world, REQUESTS, RETRIEVAL): ARMS[chosen] for world in worlds}
    cache, cells, skipped = filled(arms, seeds, cache_file, only, jobs, progress, data)
    values = ArmTable.of(cells, cache)
    expected = [Direction(place, *one) for place in arms for one in EXPECTED[chosen]]
    return result(
        name,
        profile,
        seeds,
        began,
        [*values.rows(), *values.temperature_rows()],
        values.claims(expected),
        settings=cache.settings,
        x="temperature",
        tests=values.tests(expected),
        skipped=skipped,
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )
