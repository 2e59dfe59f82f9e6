"""A small recommender with two-time-scale users: a, b and c are known, a and c have vectors of their own."""

import pyarrow as pa
import torch

from shortlist.data import Catalog, Vocabulary
from shortlist.grammar import as_pipeline
from shortlist.models.sequence.two_time_scale import TwoTimeScale, TwoTimeScaleConfig
from shortlist.nominate import ModelNominator, Popular
from shortlist.pipeline import About, Recommender
from shortlist.stages import ModelScorer, Seen
from shortlist.state import UserEvent, UserHistories

N_ITEMS, WIDTH = 40, 8
NOW = 2_000_000_000_000
HISTORIES = {"a": [1, 2, 3, 4, 5], "b": [7, 9], "c": [11, 12, 13]}
ITEM_WITHOUT_EVENTS = "i39"


def model(seed=0, readout="anchored", **config):
    """Two active users, each with two events in its own vector."""
    torch.manual_seed(seed)
    config = TwoTimeScaleConfig(
        n_items=N_ITEMS, n_users=3, n_active=2, width=WIDTH, readout=readout, **config
    )
    made = TwoTimeScale(config).eval()
    with torch.no_grad():
        made.items.normal_()
        made.own.normal_()
        made.start.normal_()
        made.own_row.copy_(torch.tensor([0, -1, 1]))
        made.base.fill_(2)
        if readout == "anchored":
            made.output.weight.normal_()
    return made


def pipeline(first=None, second=None):
    """A nominator and a scorer with the same model, unless there is a second one."""
    first = model() if first is None else first
    popular = Popular(torch.arange(N_ITEMS), torch.linspace(1, 0.1, N_ITEMS), name="popular", limit=10)
    towers = ModelNominator(first, name="taste", limit=15)
    return as_pipeline(
        towers + popular
        >> Seen(name="seen")
        >> ModelScorer(first if second is None else second, name="rank") % 8
    )


def recommender(made=None, users=("a", "b", "c")):
    lengths = [len(one) for one in HISTORIES.values()]
    starts = torch.tensor([0, *lengths]).cumsum(0)
    items = torch.tensor([item for one in HISTORIES.values() for item in one], dtype=torch.int32)
    catalog = Catalog(Vocabulary.of([f"i{row}" for row in range(N_ITEMS)]), pa.table({}))
    return Recommender(
        pipeline() if made is None else made,
        catalog,
        Vocabulary.of(list(users)),
        UserHistories(starts, items),
        About(name="live", ends=1000),
    )


def events(user, items, start=NOW - 1000):
    """One event per second-thousandth, with ids of their own."""
    return [UserEvent(user, f"i{item}", start + at, f"{user}-{start + at}") for at, item in enumerate(items)]
