"""A pipeline on held-out requests, run as `shortlist evaluate` runs it: in batches, without time limits."""

from torch import Tensor

from shortlist.data import HeldOut
from shortlist.grammar import Pipeline
from shortlist.metrics.ranking import Relevant
from shortlist.metrics.significance import bootstrap
from shortlist.pipeline.about import Measured
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.offline import offline
from shortlist.progress import Progress, silent

CUT = 20  # items of a slate
MEASURED = ("recall", "ndcg")
SEED = 0  # of the bootstrap: the default of `shortlist evaluate`


def measure(pipeline: Pipeline, requests: HeldOut, progress: Progress = silent) -> Measured:
    """Recall and NDCG of a pipeline, defined as in `shortlist evaluate`."""
    found = slates(pipeline, requests, "measure", progress)
    values = Relevant.of(requests.relevant()).metrics(found, MEASURED, (CUT,))
    return Measured(len(requests), {name: bootstrap(own, SEED) for name, own in values.items()})


def slates(pipeline: Pipeline, requests: HeldOut, task: str, progress: Progress = silent) -> Tensor:
    """The slates of all requests [C, <= CUT], -1 = an empty place."""
    return slates_of(offline(pipeline), requests, CUT, progress, task)
