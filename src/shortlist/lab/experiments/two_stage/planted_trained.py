"""One weakness planted in a pipeline with trained stages: does the diagnosis name the stage, and blame no other?

With retraining the first finding should be the planted stage, unless the weakness costs no recall that can be shown
against the control; in the control there should be none that advises anything. Without retraining no finding may advise
a change of another stage. World, recipe and planted weaknesses were chosen on seed 0; on seeds 1 to 5 it was seen that
advice without retraining must allow for the number of settings measured. A claim holds if every seed is right.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from shortlist.errors import ConfigError
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.experiments.two_stage.planted_cells import (
    CONTROL,
    PLANTS,
    SIZES,
    PlantedCell,
    TrainedTrial,
    run_planted,
    settings_of,
)
from shortlist.lab.result import Claim, Result, Row, claim, result, row, start
from shortlist.metrics.estimate import exact_share
from shortlist.metrics.significance import paired
from shortlist.progress import Progress, silent

SOURCE = "a planted weakness, trained stages"
Trials = dict[str, dict[int, TrainedTrial]]  # by plant and seed


def planted_trained(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (6, 7, 8, 9, 10),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
) -> Result:
    """A new simulated world per seed; one weakness at a time, diagnosed with and without retraining.

    `only` cells PLANT/SEED under these patterns are run. `data` is not needed.
    """
    began = start()
    if profile not in SIZES:
        raise ConfigError(f"planted-trained: expected the profile quick or full, got {profile!r}")
    cells = [PlantedCell(plant, seed) for seed in seeds for plant in PLANTS]
    cache = AnswerCache.open(cache_file)
    settings = partial(settings_of, profile=profile)
    with TemporaryDirectory(prefix="shortlist-") as folder:
        run = partial(run_planted, profile=profile, folder=Path(folder))
        failed = run_cells(chosen_cells(cells, only), cache, run, settings, jobs, progress)
    trials, harmless = _trials(cells, cache), _harmless(cells, cache)
    missing = {str(cell): "not run" for cell in cells if not cache.has(str(cell))}
    return result(
        "planted-trained",
        profile,
        seeds,
        began,
        [one for plant in trials for one in _rows(plant, trials)],
        [
            *(one for plant, own in trials.items() for one in _claims(plant, own, harmless)),
            *_summary(trials, harmless),
        ],
        settings={**cache.settings, **_changes(trials)},
        skipped={**missing, **failed},
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def _trials(cells: Sequence[PlantedCell], cache: AnswerCache) -> Trials:
    """The trials that the cache has; plants without any are left out."""
    found: Trials = {}
    for cell in cells:
        if cache.has(str(cell)):
            facts = {key: cache.facts[str(cell)][key] for key in TrainedTrial.__dataclass_fields__}
            found.setdefault(cell.plant, {})[cell.seed] = TrainedTrial(**facts)
    return found


def _harmless(cells: Sequence[PlantedCell], cache: AnswerCache) -> set[PlantedCell]:
    """Cells whose weakness costs no recall that can be shown against the control of their world."""
    found = set()
    for cell in cells:
        names = str(PlantedCell(CONTROL, cell.seed)), str(cell)
        if cell.plant != CONTROL and all(map(cache.has, names)):
            healthy, weak = (cache.tensors[name] for name in names)
            found |= set() if paired(healthy, weak, cell.seed).above else {cell}
    return found


def _changes(trials: Trials) -> dict[str, dict[str, object]]:
    """What every trained change of every cell gained: mean, low, high and p-value."""
    return {
        str(PlantedCell(plant, seed)): {"changes": one.changes}
        for plant, own in trials.items()
        for seed, one in own.items()
    }


def _rows(plant: str, trials: Trials) -> list[Row]:
    own = list(trials[plant].values())
    healthy = [one.recall for seed, one in trials.get(CONTROL, {}).items() if seed in trials[plant]]
    return [
        row(plant, "named first with retraining", [float(one.named) for one in own]),
        row(plant, "no other stage blamed without", [float(one.fair) for one in own]),
        row(plant, "recall, weak", [one.recall for one in own]),
        *([row(plant, "recall, healthy", healthy)] if healthy else []),
        row(plant, "gain of the first finding", [one.gain for one in own]),
        row(plant, "seconds", [one.seconds for one in own]),
    ]


def _claims(plant: str, trials: dict[int, TrainedTrial], harmless: set[PlantedCell]) -> list[Claim]:
    own = list(trials.values())
    weak = [one for seed, one in trials.items() if PlantedCell(plant, seed) not in harmless]
    what = "nothing is advised with retraining" if plant == CONTROL else "named first with retraining"
    found, blamed = (_listed([getattr(one, name) for one in own]) for name in ("first", "untrained"))
    fair = [one.fair for one in own]
    left = f"; {len(own) - len(weak)} that cost no recall do not count" if len(weak) < len(own) else ""
    return [
        *([_rate(f"{plant}: {what}", [one.named for one in weak], f"first: {found}{left}")] if weak else []),
        _rate(f"{plant}: no other stage blamed without", fair, f"first: {blamed}"),
    ]


def _summary(trials: Trials, harmless: set[PlantedCell]) -> list[Claim]:
    cells = {PlantedCell(plant, seed): one for plant, own in trials.items() for seed, one in own.items()}
    planted = [one for cell, one in cells.items() if cell.plant != CONTROL]
    weak = [one for cell, one in cells.items() if cell.plant != CONTROL and cell not in harmless]
    if not planted:
        return []
    return [
        *([_rate("all plants: named first with retraining", [one.named for one in weak])] if weak else []),
        _rate("all plants: no other stage blamed without", [one.fair for one in planted]),
    ]


def _rate(name: str, right: Sequence[bool], note: str = "") -> Claim:
    """A share of the trials with its exact interval; it holds if all are right."""
    share = exact_share(sum(right), len(right))
    text = f"{sum(right)} of {len(right)}" + (f"; {note}" if note else "")
    return claim(name, SOURCE, all(right), share.mean or 0.0, text, (share.low or 0.0, share.high or 0.0))


def _listed(names: Sequence[str]) -> str:
    counts = {name or "none": list(names).count(name) for name in dict.fromkeys(names)}
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
