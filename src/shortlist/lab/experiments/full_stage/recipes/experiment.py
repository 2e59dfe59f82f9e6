"""Recipes of the package, trained from events or from the full-stage log of a funnel with known utilities.

A funnel whose stages score with an error around the utility serves requests of World A; its log is written, sampled
and joined with feedback as in service. The trainers of the package then train one recipe: mf or a tree, popular
items, three rankers. Arms differ in what they are trained from: the events before the first request, these with the
liked items of the log among them, or events and log with an objective per stage; the last stage of lcron, rankflow,
arf and icc is trained by softmax. Data, epochs, the number of requests that rankers are trained on and all other
settings are the same. Every user is then served once; feedback is drawn anew. Liked per slot is the mean true utility
of the shown items; what the stages lose of the best utility adds up; one slate for all is what the same items for
every user would reach. Round 2 is trained from the log of the bundle of round 1 alone, "all logs" from both; for
events only, its liked items become events. Recipes do not explore. Each claim holds if the 95 % interval of its
paired difference over seeds is above 0.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.full_stage.cells import grids_folder, world_of
from shortlist.lab.experiments.full_stage.recipes.recipe_arms import ARMS
from shortlist.lab.experiments.full_stage.recipes.recipe_cells import ROUNDS, RecipeCell, run_recipe_cell
from shortlist.lab.experiments.full_stage.recipes.recipe_claims import (
    Facts,
    method,
    recipe_claims,
    recipe_differences,
)
from shortlist.lab.experiments.full_stage.recipes.sizes import SETUPS
from shortlist.lab.experiments.parallel import chosen_cells, run_cells
from shortlist.lab.result import Result, Row, result, row, start
from shortlist.progress import Progress, silent


def fsltr_recipes(
    data: Path | None,
    profile: str = "quick",
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
    cache_file: Path | None = None,
    only: Sequence[str] = (),
    jobs: int = 1,
    name: str = "fsltr-recipes",
    size: str = "full",
) -> Result:
    """All arms in all set-ups of World A; `data` is not needed.

    `size` is the world of the full profile. `only` cells WORLD/SETUP/ARM/SEED under these patterns are run.
    """
    began = start()
    world = world_of(profile, name, size)
    cells = [RecipeCell(world, setup.name, arm, seed) for setup in SETUPS for arm in ARMS for seed in seeds]
    cache = AnswerCache.open(cache_file)
    with grids_folder(cache_file) as folder:
        run = partial(run_recipe_cell, folder=folder)
        failed = run_cells(chosen_cells(cells, only), cache, run, lambda cell: cell.settings, jobs, progress)
    missing = {str(cell): "not run" for cell in cells if not cache.has(str(cell))}
    facts = _facts(cells, cache)
    return result(
        name,
        profile,
        seeds,
        began,
        _rows(facts),
        recipe_claims(facts),
        differences=recipe_differences(facts),
        settings=cache.settings,
        skipped={**missing, **failed},
        note=" ".join([*__doc__.partition("\n\n")[2].split(), cache.origins]),
    )


def _facts(cells: Sequence[RecipeCell], cache: AnswerCache) -> Facts:
    """The figures of the cells that the cache has, by set-up, method and seed."""
    found: dict[str, dict[str, dict[int, Mapping[str, float]]]] = {}
    for cell in cells:
        rounds = cache.facts[str(cell)][ROUNDS] if cache.has(str(cell)) else ()
        for number, figures in enumerate(rounds):
            seeds = found.setdefault(cell.setup, {}).setdefault(method(cell.arm, number), {})
            seeds[cell.seed] = figures
    return found


def _rows(facts: Facts) -> list[Row]:
    return [
        row(f"{title} on {setup}", metric, [one[metric] for one in seeds.values()])
        for setup, methods in facts.items()
        for title, seeds in methods.items()
        for metric in next(iter(seeds.values()))
    ]
