"""What a reader of an evaluation must know about the training and the time limits of its pipeline."""

from shortlist.grammar import Pipeline
from shortlist.pipeline import About
from shortlist.pipeline.offline import time_limited


def limit_warnings(pipeline: Pipeline) -> tuple[str, ...]:
    """That time limits are off: a batch would exceed a limit meant for one request, and get another answer."""
    limited = ", ".join(time_limited(pipeline))
    return (f"time limits are off, because requests run in batches: {limited}",) if limited else ()


def training_warnings(about: About) -> tuple[str, ...]:
    """Stages whose training did not converge, and what their trainers warned of."""
    unfinished = (
        f"stage {stage!r} did not converge: its validation metric was still improving when training ended "
        f"(best epoch {about.training[stage].best_epoch} of {about.training[stage].max_epochs}); train it for longer"
        for stage in about.not_converged
    )
    return (*unfinished, *about.warnings)
