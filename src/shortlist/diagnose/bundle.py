"""The diagnosis of a trained bundle: `shortlist.diagnose`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from shortlist.data import Dataset, HeldOut, open_dataset
from shortlist.diagnose.diagnosis import Diagnosis
from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.findings.summary import setting
from shortlist.diagnose.knobs.budget import BudgetReport, parse_budget, search_budget
from shortlist.diagnose.knobs.knobs import KnobResult
from shortlist.diagnose.knobs.retrain import MINUTES, NO_TIME, retrain_variants
from shortlist.diagnose.knobs.variants import Variant, check_variants, variants
from shortlist.diagnose.pipeline import USERS, diagnose_sample
from shortlist.diagnose.sample import sample_users
from shortlist.diagnose.shift import training_candidates
from shortlist.diagnose.tree.bundle import diagnose_trees, trees_of
from shortlist.errors import ConfigError
from shortlist.evaluate.evaluation import measure_headline
from shortlist.evaluate.latency import one_thread
from shortlist.evaluate.protocol.held_out import check_not_empty, held_out_part, split_of
from shortlist.evaluate.protocol.measures import SLATE, choose_measures
from shortlist.pipeline import Recipe, Recommender, open_recommender
from shortlist.progress import Progress, silent
from shortlist.train.references import stages_used

SECONDS = 30.0  # for measuring settings within a budget


def diagnose(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    *,
    on: str = "valid",
    at: int = SLATE,
    users: int | None = None,
    budget: str | float | None = None,
    retrain: bool = False,
    minutes: float = MINUTES,
    settings: Mapping[str, Any] | None = None,
    shapley: bool = False,
    k: int | None = None,
    beam: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Diagnosis:
    """Diagnose a bundle on the users its split held out.

    `bundle` and `data` are objects or their folders; `on` is "valid" or "test". Slates have `at` items. The
    headline is that of `evaluate`, on all of these users; for the rest at most `users` of them are sampled, 1,000 by
    default. `budget` ("30ms") also searches for the best sizes within that latency, and limits the time of the
    split over nominators. `shapley` also measures Shapley values of the recall of slates. `retrain` also trains the
    recipe again with one change at a time, as many as `minutes` allow, or with the change of `settings` only. `k` and
    `beam` replace those of the trees.
    """
    budget_ms, measures = None if budget is None else parse_budget(budget), choose_measures(at=at)
    opened, dataset = open_recommender(bundle).as_measured(), open_dataset(data)
    _check_tree_options(opened, k, beam)
    split = split_of(opened, dataset)
    held_out = held_out_part(split, on)
    check_not_empty(held_out)
    headline = measure_headline(
        opened, held_out, split.train, on, measures, dataset.clock, seed, progress=progress
    )
    tried = _tried(opened, retrain, settings)
    sample = sample_users(held_out, len(opened.catalog), USERS if users is None else users, seed)
    with one_thread():  # batches are small: a second thread waits more than it works
        found = diagnose_sample(
            opened.pipeline,
            sample,
            split.train,
            opened.catalog,
            k=measures.slate,
            training=training_candidates(opened.training_sample),
            on=on,
            held_out_users=len(np.unique(held_out.users)),
            budget_ms=budget_ms,
            shapley=shapley,
            progress=progress,
        )
        trees = diagnose_trees(
            opened, dataset, held_out, seed=seed, users=users, k=k, beam=beam, progress=progress
        )
    search = None if budget_ms is None else _budget(opened, sample.held_out, budget_ms, seed, progress)
    if retrain:
        extra = retrain_variants(tried, opened, dataset, split, sample, progress, measures.slate, minutes)
    else:
        extra = tuple(variant.result() for variant in tried)
    return with_findings(
        replace(
            found,
            knobs=(*found.knobs, *extra),
            warnings=(*found.warnings, *_left_out(extra, minutes)),
            trees=trees,
            headline=headline,
            budget=search,
            dependents=dependents_of(opened.recipe),
            about=opened.about,
        )
    )


def _tried(bundle: Recommender, retrain: bool, settings: Mapping[str, Any] | None) -> tuple[Variant, ...]:
    """The changes to train, or to list as not measured."""
    if settings and not retrain:
        raise ConfigError("--set changes the recipe, which needs training; add --retrain")
    if retrain:
        return check_variants(bundle, settings)
    return variants(bundle.recipe, bundle.pipeline.stages[0].title, bundle.about.training)


def _left_out(results: Sequence[KnobResult], minutes: float) -> tuple[str, ...]:
    """The changes for which there was no time, in one sentence."""
    missing = [one for one in results if one.why is not None and one.why.startswith(NO_TIME)]
    if not missing:
        return ()
    listed = "; ".join(setting(one) for one in missing)
    return (
        f"{len(missing)} of {len(results)} changes were not trained within --minutes {minutes:g}: {listed}. Give more "
        "time, or choose one with --set.",
    )


def dependents_of(recipe: Recipe | None) -> Mapping[str, tuple[str, ...]]:
    """By stage, the stages of a recipe that need it, such as those with `start = "towers"`."""
    used = {} if recipe is None else {name: stages_used(recipe, name) for name in recipe.stages}
    sources = dict.fromkeys(source for names in used.values() for source in names)
    return {source: tuple(name for name, names in used.items() if source in names) for source in sources}


def _budget(
    bundle: Recommender, held_out: HeldOut, budget_ms: float, seed: int, progress: Progress
) -> BudgetReport:
    n_items = len(bundle.catalog)
    search = search_budget(
        bundle.pipeline, held_out, budget_ms, n_items, seconds=SECONDS, seed=seed, progress=progress
    )
    return search.report()


def _check_tree_options(bundle: Recommender, k: int | None, beam: int | None) -> None:
    given = [name for name, value in (("k", k), ("beam", beam)) if value is not None]
    if given and not trees_of(bundle):
        raise ConfigError(
            f"{bundle.about.name}: {' and '.join(given)} can be set for trees only, and {bundle.pipeline!r} has none; "
            "leave them out"
        )
