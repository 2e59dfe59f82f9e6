"""`auto` against `classic` and every single model, on all data sets and protocols, with paired intervals.

All systems have the same splits, stop early on the same validation requests by the same metric, and have the same
largest number of epochs. Sequence models choose their label horizon on validation as `auto` does; beside it stands a
version that predicts the next item. Test users are the same for every seed where the log is a file and the split is not
random: their values are means over seeds. Elsewhere the users of all seeds are pooled. Seconds of training were
measured while other cells ran on the same machine.
"""

from collections.abc import Sequence
from pathlib import Path

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models.cells import AUTO, REAL, REPEATS, Setup
from shortlist.lab.experiments.models.system_table import DECIDES, SOURCE, SystemTable
from shortlist.lab.result import Claim, Result, claim, result, start
from shortlist.progress import Progress, silent

DEMO = Setup("demo", "half-history")
SETUPS = (
    *(Setup("ml-1m", protocol) for protocol in ("half-history", "leave-last-out", "global-time")),
    Setup("mind", "half-history"),
    DEMO,
    *(Setup("amazon-like", protocol) for protocol in ("leave-last-out", "global-time")),
    *(Setup("power-law", protocol) for protocol in ("leave-last-out", "global-time")),
    Setup(REPEATS, "leave-last-out"),
)
QUICK_SETUPS = (DEMO, Setup("power-law", "global-time"))
QUICK_SYSTEMS = (AUTO, "ease", "last-click", "sasrec")


def auto_table(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "auto-table",
    protocol: str | None = None,
) -> Result:
    """All systems on all setups, or on those of one `protocol`.

    `only` cells under these patterns are run; the table has them and all others that are in the cache.
    """
    began = start()
    setups = [one for one in setups_of(data, profile, name) if protocol in (None, one.protocol)]
    table = SystemTable.filled(
        AnswerCache.open(cache_file),
        setups,
        seeds,
        QUICK_SYSTEMS if profile == "quick" else (),
        folder=data,
        is_quick=profile == "quick",
        jobs=jobs,
        only=only,
        progress=progress,
    )
    return result(
        name,
        profile,
        seeds,
        began,
        table.rows(),
        [*table.claims(), *_demo_claims(table)],
        settings=table.settings,
        training=table.cache.training,
        differences=tuple(table.differences()),
        skipped=table.skipped(),
        note=" ".join([*__doc__.partition("\n\n")[2].split(), table.cache.origins]),
    )


def _demo_claims(table: SystemTable) -> list[Claim]:
    """What `make demo` trains is above EASE."""
    if DEMO not in table.setups or not {AUTO, "ease"} <= set(table.systems_on(DEMO)):
        return []
    test, users = table.compared(DEMO, AUTO, "ease")
    note = f"paired difference in {DECIDES} over {users} users"
    name = f"{AUTO} > ease on {DEMO}"
    return [claim(name, SOURCE, test.above, test.difference, note, [test.low, test.high])]


def setups_of(data: Path | None, profile: str, name: str) -> tuple[Setup, ...]:
    """The setups of a profile."""
    if profile == "quick":
        return QUICK_SETUPS
    if profile != "full":
        raise ConfigError(f"{name}: expected the profile quick or full, got {profile!r}")
    if data is None:
        raise ConfigError(f"{name}: the full profile needs --data, a folder that holds {' and '.join(REAL)}")
    return SETUPS
