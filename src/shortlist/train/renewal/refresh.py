"""New events into a bundle: into histories and counts at once, or by training again."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from shortlist.data import Dataset, open_dataset
from shortlist.errors import ConfigError
from shortlist.pipeline import Recipe, Recommender, open_recommender
from shortlist.pipeline.about import Refresh
from shortlist.progress import Progress, silent
from shortlist.state.histories import UserHistories
from shortlist.train.bundle import save_trained, train_measured
from shortlist.train.context import TrainContext
from shortlist.train.preparation.checks import check_free_space, only_training
from shortlist.train.refit import refit
from shortlist.train.renewal.bundle_rows import BundleRows, in_rows_of, trained_events
from shortlist.train.renewal.count_stages import recount
from shortlist.train.renewal.retrain import Retrained, compared, requests_new_to


@dataclass(frozen=True, eq=False)
class Refreshed:
    """The bundle to serve, and with `retrain` how the new one compares with the old one."""

    bundle: Recommender
    comparison: Retrained | None = None

    @property
    def kept(self) -> bool:
        """Whether the bundle is a new one; if not, the old one is better and nothing was written."""
        return self.comparison is None or self.comparison.kept


def refresh(
    bundle: Recommender | Path | str,
    data: Dataset | Path | str,
    out: Path | str | None = None,
    *,
    retrain: bool = False,
    checkpoint_dir: Path | str | None = None,
    seed: int | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> Refreshed:
    """A bundle with the events of a data set that has grown since; its folder is replaced unless there is an `out`.

    Histories and counts get all events at once; users are added, trained weights stay. Events with items that the
    bundle does not know are left out. With `retrain` its recipe is trained again under the same protocol and seed, or
    with the `seed` given, and replaces the old bundle unless its recall@20 is significantly worse on validation
    requests that are new to both; only then it is fitted again on all events. `force` replaces a bundle at `out`.
    """
    folder = _target(bundle, out)
    checkpoints = None if checkpoint_dir is None else Path(checkpoint_dir)
    with only_training(folder, force or out is None, checkpoints):
        old, dataset = open_recommender(bundle), open_dataset(data)
        recipe = _recipe(old)
        seed = old.about.seed if seed is None else seed
        if folder is not None:
            check_free_space(folder, recipe, dataset, old.about.refit is not None)
        if not retrain:
            new, comparison = _with_events(old, recipe, dataset, progress), None
        else:
            new, comparison = _trained_again(old, recipe, dataset, seed, checkpoints, progress)
        if comparison is not None and not comparison.kept:
            return Refreshed(old, comparison)
        saved = new if folder is None else save_trained(new, dataset, folder, force=True)
        return Refreshed(saved, comparison)


def _target(bundle: Recommender | Path | str, out: Path | str | None) -> Path | None:
    """Where the bundle is written: `out`, or the folder of the old bundle; None for one in memory."""
    if out is not None:
        return Path(out)
    return None if isinstance(bundle, Recommender) else Path(bundle)


def _recipe(bundle: Recommender) -> Recipe:
    if bundle.recipe is None:
        raise ConfigError(
            f"{bundle.about.name}: has no recipe, so its stages cannot be fitted again; train it anew"
        )
    return bundle.recipe


def _with_events(old: Recommender, recipe: Recipe, dataset: Dataset, progress: Progress) -> Recommender:
    """The bundle with new histories and counts; the measured pipeline and its figures stay."""
    rows = in_rows_of(old, dataset)
    context = TrainContext(rows.events, old.catalog, dataset.clock, old.about.seed, progress)
    pipeline, stages = recount(old.pipeline, recipe, context)
    served = old.pipeline
    facts = Refresh(
        dataset.fingerprint,
        len(rows.events),
        rows.n_users,
        rows.new_users,
        rows.unknown_items,
        rows.left_out,
        stages,
    )
    return replace(
        old,
        pipeline=pipeline,
        users=rows.users,
        histories=_histories(old, rows),
        about=replace(old.about, ends=context.ends, refresh=facts),
        measured=old.measured or (lambda: served),
    )


def _histories(old: Recommender, rows: BundleRows) -> UserHistories:
    trained = trained_events(old.histories, rows.events)
    columns = (rows.events.starts.astype("int64"), rows.events.items.copy(), trained)
    return UserHistories(*map(torch.from_numpy, columns))


def _trained_again(
    old: Recommender,
    recipe: Recipe,
    dataset: Dataset,
    seed: int,
    checkpoints: Path | None,
    progress: Progress,
) -> tuple[Recommender, Retrained]:
    """The same recipe and protocol on the new data, and its comparison with the old bundle; fitted again if kept."""
    about = old.about
    split = dataset.split(**about.split)
    requests = requests_new_to(old, dataset, split.valid)  # before the work: other data is refused
    new = train_measured(recipe, dataset, split, seed, checkpoints, progress)
    comparison = compared(old, new.recommender, dataset, requests, progress)
    again = comparison.kept and about.refit is not None
    return refit(new, dataset, progress, checkpoints) if again else new.recommender, comparison
