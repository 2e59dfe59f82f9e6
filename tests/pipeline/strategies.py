"""Hypothesis strategies: random pipelines of toy stages and random requests."""

from hypothesis import strategies as st

from shortlist.data import Query
from shortlist.pipeline import Optional
from tests.worlds import Label, Last, RandomFilter, RandomNominator, RandomScorer

salts = st.integers(0, 50)


@st.composite
def pipelines(draw):
    """One to three nominators, then up to five stages of any kind, some of them cut."""
    parts = [
        RandomNominator(
            width=draw(st.integers(0, 14)),
            salt=draw(salts),
            name=f"n{number}",
            limit=draw(st.integers(1, 12)),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    pipeline = parts[0]
    for part in parts[1:]:
        pipeline = pipeline + part
    if draw(st.booleans()):
        pipeline = pipeline % draw(st.integers(1, 20))
    for number in range(draw(st.integers(0, 5))):
        pipeline = pipeline >> draw(stages(f"s{number}"))
    return pipeline


@st.composite
def stages(draw, name):
    kind = draw(st.sampled_from([RandomFilter, RandomScorer, RandomScorer, Label, Last]))
    if kind is Last:
        stage = Last(name=name, k=draw(st.integers(1, 12)))
        return Optional(stage) if draw(st.booleans()) else stage
    stage = Label(name=name) if kind is Label else kind(salt=draw(salts), name=name)
    if kind is RandomScorer:
        stage = stage.renewed(broken=draw(st.booleans()))
    return stage % draw(st.integers(1, 15)) if draw(st.booleans()) else stage


@st.composite
def requests(draw):
    seeds = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
    histories = [draw(st.lists(st.integers(0, 39), max_size=6)) for _ in seeds]
    return Query.of(histories, seeds=seeds)
