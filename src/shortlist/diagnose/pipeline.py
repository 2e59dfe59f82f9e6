"""The diagnosis of a bare pipeline on held-out requests."""

from collections.abc import Mapping

import numpy as np

from shortlist.data import Catalog, HeldOut, Interactions
from shortlist.diagnose.calibration import Calibration, calibration
from shortlist.diagnose.coverage import measure_coverage
from shortlist.diagnose.diagnosis import Balance, Diagnosis, NominatorReport, SampledUsers, StageReport
from shortlist.diagnose.findings.findings import with_findings
from shortlist.diagnose.findings.text import counted
from shortlist.diagnose.follow_items import CATALOGUE, FollowedItems, follow_relevant_items
from shortlist.diagnose.full_catalog import compare_to_full_catalog
from shortlist.diagnose.funnel import measure_funnel
from shortlist.diagnose.knobs.knobs import measure_filters, measure_knobs
from shortlist.diagnose.nominators.measure import measure_nominators
from shortlist.diagnose.nominators.replay import PoolReplay, shapley_of_slates
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.sample import SLATE, UserSample, sample_users
from shortlist.diagnose.scorer_inputs import CandidateRows, ScorerInputs, scorer_inputs
from shortlist.diagnose.segments import Pairs, by_segment
from shortlist.diagnose.shift import shifts
from shortlist.diagnose.what_if import what_if
from shortlist.errors import DataError
from shortlist.evaluate.losses import Ints, Losses, decompose
from shortlist.grammar import Pipeline, Stage, as_pipeline
from shortlist.metrics.estimate import MIN_USERS
from shortlist.pipeline.offline import offline, time_limited
from shortlist.pipeline.recommender import resized, slate_size
from shortlist.progress import Progress, silent

USERS = 1000  # followed through all stages, at most
KNOB_USERS = 300  # of them, those on whom knobs and nominators are measured, at most
SCORES = 1_000_000  # users x items that the verdict scores, at most, unless that were too few users


def diagnose_pipeline(
    pipeline: Stage,
    held_out: HeldOut,
    train: Interactions,
    catalog: Catalog,
    *,
    users: int | None = None,
    k: int | None = None,
    seed: int = 0,
    training: Mapping[str, CandidateRows] | None = None,
    on: str = "",
    progress: Progress = silent,
) -> Diagnosis:
    """Follow the relevant items of held-out requests through a pipeline, and measure every stage and knob.

    `train` are the events the pipeline was trained on, `training` samples of the candidates its scorers were trained
    on, by scorer. At most `users` users are sampled; slates have `k` items, or as many as the pipeline returns. `on`
    names the part of the split the requests come from.
    """
    sample = sample_users(held_out, len(catalog), USERS if users is None else users, seed)
    held_out_users = len(np.unique(held_out.users))
    return diagnose_sample(
        pipeline,
        sample,
        train,
        catalog,
        k=k,
        training=training,
        on=on,
        held_out_users=held_out_users,
        progress=progress,
    )


def diagnose_sample(
    pipeline: Stage,
    sample: UserSample,
    train: Interactions,
    catalog: Catalog,
    *,
    k: int | None = None,
    training: Mapping[str, CandidateRows] | None = None,
    on: str = "",
    held_out_users: int,
    budget_ms: float | None = None,
    shapley: bool = False,
    progress: Progress = silent,
) -> Diagnosis:
    """`diagnose_pipeline` for users that are sampled already; `held_out_users` is the number to sample from.

    A split of slots over the nominators is learned within `budget_ms` per request. `shapley` also runs the pipeline
    with every set of nominators.
    """
    original, seed = as_pipeline(pipeline), sample.seed
    size = slate_size(offline(original)) or SLATE if k is None else k
    sized, n_items = resized(offline(original), size), sample.n_items
    few = sample_users(sample.held_out, n_items, KNOB_USERS, seed)
    fewer = max(MIN_USERS, min(KNOB_USERS, SCORES // max(n_items, 1)))
    small = sample_users(sample.held_out, n_items, fewer, seed)
    followed = follow_relevant_items(sized, sample)
    followed_few = followed if len(few) == len(sample) else follow_relevant_items(sized, few)
    base = followed_few.hits(len(few))
    inputs, replay = scorer_inputs(sized, sample, progress), PoolReplay.of(sized, few)
    losses = decompose(followed.trace)
    found = Diagnosis(
        pipeline=repr(original),
        users=sample.n_users,
        k=size,
        seed=seed,
        relevant=int(losses.alive[0]),
        returned=int(losses.alive[-1]),
        recall=sample.recall(followed.hits(len(sample))),
        max_recall=sample.recall(np.minimum(sample.n_relevant, size)).mean or 0.0,
        precision_at_1=sample.mean(followed.first_relevant),
        stages=_stages(sized, sample, followed, losses),
        balance=balance(losses, int(followed.in_slate.sum())),
        verdict=compare_to_full_catalog(sized, small),
        nominators=attribute(replay, base, followed),
        nomination=measure_nominators(
            sized,
            sample,
            followed.hits(len(sample)),
            budget_ms=budget_ms,
            returned=shapley_of_slates(replay) if shapley else None,
            progress=progress,
        ),
        knobs=measure_knobs(sized, few, base, progress),
        filters=measure_filters(sized, few, base, progress),
        shift=shifts(inputs, training or {}, train.popularity, catalog, seed),
        calibration={name: _calibrated(one, seed) for name, one in inputs.items()},
        segments=by_segment(
            followed.trace,
            Pairs.of(sample.held_out),
            train,
            catalog,
            seed,
            (sample.users, followed.first_relevant),
        ),
        coverage=measure_coverage(sized, sample, progress),
        funnel=measure_funnel(sized, sample, size, progress),
        sample=SampledUsers(on, held_out_users, sample.n_users, few.n_users, small.n_users, seed),
        warnings=_warnings(original, sample, followed, k),
    )
    return with_findings(found)


def attribute(replay: PoolReplay, base: Ints, followed: FollowedItems) -> dict[str, NominatorReport]:
    """Leave out every nominator in turn; `base` [C] are the hits of all, `followed` is the same pipeline."""
    reports, parts = {}, replay.pipeline.nominators
    for number, part in enumerate(parts):
        without = replay.sample.recall(replay.hits(np.arange(len(parts)) != number) - base)
        own = followed.nominators[part.title]
        reports[part.title] = NominatorReport(own.nominated, own.unique, without)
    return reports


def balance(losses: Losses, returned: int) -> Balance:
    """Check the account: relevant items are lost at a stage or counted in the slates."""
    relevant, lost = int(losses.alive[0]), int(losses.first_losses.sum())
    apart = 0.0 if losses.error is None else abs(losses.error - (losses.product_error or 0.0))
    return Balance(relevant, lost, returned, relevant == lost + returned, apart)


def _stages(
    pipeline: Pipeline, sample: UserSample, followed: FollowedItems, losses: Losses
) -> tuple[StageReport, ...]:
    if not losses.alive[0]:
        raise DataError(
            "diagnose: expected held-out requests with relevant items, got none; train with another --protocol"
        )
    alive, lost = losses.alive.tolist(), losses.first_losses.tolist()
    intervals, what_ifs = losses.intervals(sample.seed), what_if(pipeline, sample, followed)
    unavoidable = followed.unavoidable.sum(0).tolist()
    return tuple(
        StageReport(
            stage.name,
            stage.kind,
            alive[number],
            alive[number + 1],
            lost[number],
            int(followed.removed[:, number].sum()),
            lost[number] - unavoidable[number],
            unavoidable[number],
            intervals[number],
            losses.conditional[number],
            float(followed.candidates[:, number].mean()),
            int(followed.underfilled[:, number].sum()),
            stage.ordered_by,
            what_ifs[number],
            int(followed.by_order[:, number].sum()),
        )
        for number, stage in enumerate(followed.stages)
    )


def _calibrated(inputs: ScorerInputs, seed: int) -> Calibration | NotMeasured:
    try:
        return calibration(inputs, seed)
    except DataError as error:
        return NotMeasured(str(error))


def _warnings(
    pipeline: Pipeline, sample: UserSample, followed: FollowedItems, k: int | None
) -> tuple[str, ...]:
    """What limits the validity of the numbers."""
    warnings = []
    if sample.n_users < MIN_USERS:
        warnings.append(
            f"{counted(sample.n_users, 'user is', 'users are')} too few for intervals, which need {MIN_USERS}: every "
            "number holds for this sample only."
        )
    if k is None and slate_size(pipeline) is None:
        warnings.append(f"The pipeline has no slate size; slates of {SLATE} are assumed.")
    if limited := time_limited(pipeline):
        warnings.append(
            f"Time limits are off here, because requests run in batches: {', '.join(limited)}. A budget measures the "
            "latency of single requests."
        )
    if followed.stages[0].kind == CATALOGUE:
        outside = int((~followed.trace.alive[:, 0]).sum())
        warnings.append(
            f"{counted(outside, 'relevant item is', 'relevant items are')} not in the catalogue: no stage can "
            "return them."
        )
    warnings += [
        f"{note.stage}: {note.what}, {counted(note.count, 'time')}: {note.detail}" for note in followed.notes
    ]
    return tuple(warnings)
