"""The check anyone can run on a stage of their own: ours pass, and each broken promise is found and named."""

from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates
from shortlist.errors import ConservationError, GrammarError, ShortlistError
from shortlist.grammar import Filter, Hydrator, Nominator, Scorer, Selector, Stage
from shortlist.pipeline import Optional, Within
from shortlist.pipeline.recipe import leaves
from shortlist.stages import Explore
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, Dice, Label, Last, Sieve, listed, tiny

NAMES = ("popular", "covisit", "nearest")


@pytest.mark.parametrize("stage", [*leaves(tiny()), Explore()], ids=lambda stage: stage.title)
def test_every_stage_of_ours_keeps_the_contract(stage):
    check_stage(stage, N_ITEMS, NAMES)


@pytest.mark.parametrize(
    "stage",
    [
        Dice(),
        Dice() % 3,
        Sieve(),
        Label(),
        listed("a", [1, 2]),
        Optional(Dice()),
        Within(Dice(), ms=60_000),
        tiny(),
    ],
    ids=repr,
)
def test_cuts_guards_and_whole_pipelines_can_be_checked_too(stage):
    check_stage(stage, N_ITEMS, NAMES)


def test_small_catalogues_will_do():
    for n_items in (1, 2, 5):
        check_stage(Dice(), n_items)
        check_stage(Explore(), n_items)


class Toy:
    """The simplest stage of each kind that keeps its contract, to be broken in one point at a time."""

    @dataclass(frozen=True, eq=False, repr=False)
    class Nominator(Nominator):
        def nominate(self, query):
            return Candidates.of(
                torch.tensor([[3, 1, 2]]).repeat(len(query), 1),
                torch.tensor([[3.0, 2.0, 1.0]]).repeat(len(query), 1),
            )

    @dataclass(frozen=True, eq=False, repr=False)
    class Filter(Filter):
        def keep(self, query, found):
            return found.items != 3

    @dataclass(frozen=True, eq=False, repr=False)
    class Hydrator(Hydrator):
        def columns(self, query, found):
            return {"double": found.items * 2}

    @dataclass(frozen=True, eq=False, repr=False)
    class Scorer(Scorer):
        def score(self, query, found):
            return found.items.float()

    @dataclass(frozen=True, eq=False, repr=False)
    class Selector(Selector):
        def select(self, query, found):
            return torch.where(found.valid, torch.arange(found.shape[1]), -1)


@pytest.mark.parametrize("kind", [Toy.Nominator, Toy.Filter, Toy.Hydrator, Toy.Scorer, Toy.Selector])
def test_the_simplest_stage_of_each_kind_passes(kind):
    check_stage(kind(), 20)


def longest(query):
    return query.history.shape[1]


def known(query):
    return (query.history >= 0).sum(1, keepdim=True)


CALLS = [0]


def restless(query, found):
    CALLS[0] += 1
    return found.items.float() + CALLS[0]


def mutate(query, found):
    found.scores.add_(1.0)
    return found.items.float()


def mutate_query(query, found):
    query.history.clamp_(min=0)
    return found.items.float()


def raising(query, found):
    raise KeyError("popular.rank")


BROKEN = {
    "scorer of the wrong shape": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items[:, :1].float(),
        "gives each candidate one number",
    ),
    "scorer per request": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float().sum(1),
        "gives each candidate one number",
    ),
    "scorer of no numbers": (Toy.Scorer, "score", lambda q, f: f.items / 0.0 * 0, "gives finite numbers"),
    "scorer that changes scores in place": (Toy.Scorer, "score", mutate, "leaves its input untouched"),
    "scorer that changes the request": (Toy.Scorer, "score", mutate_query, "leaves its input untouched"),
    "scorer that answers otherwise each time": (
        Toy.Scorer,
        "score",
        restless,
        "answers alike when asked twice",
    ),
    "scorer that looks at the batch": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float() - f.items.float().mean(),
        "answers a request alike alone and in a batch",
    ),
    "scorer that looks at the padding": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float() * longest(q),
        "does not mind more padding",
    ),
    "filter of numbers": (Toy.Filter, "keep", lambda q, f: f.items, "says yes or no to each candidate"),
    "filter of the wrong shape": (
        Toy.Filter,
        "keep",
        lambda q, f: known(q) > 0,
        "says yes or no to each candidate",
    ),
    "hydrator of the wrong shape": (
        Toy.Hydrator,
        "columns",
        lambda q, f: {"age": f.items[:, :2]},
        r"gives column 'age' the shape \[B, K\]",
    ),
    "selector of places that do not exist": (
        Toy.Selector,
        "select",
        lambda q, f: torch.full((len(q), 1), f.shape[1]),
        "chooses places that exist",
    ),
    "selector of the invalid": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmin(1, keepdim=True),
        "chooses candidates that are valid",
    ),
    "selector that chooses twice": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmax(1, keepdim=True).repeat(1, 2),
        "chooses each candidate once",
    ),
    "selector that needs candidates": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmax(1, keepdim=True),
        "answers requests without any candidate, and it raised IndexError",
    ),
    "scorer that raises": (
        Toy.Scorer,
        "score",
        raising,
        "answers .*, and it raised KeyError: 'popular.rank'",
    ),
    "nominator of unknown rows": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(torch.full((len(q), 1), 20), torch.ones(len(q), 1)),
        "names rows of the catalogue",
    ),
    "nominator without order": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(
            torch.tensor([[1, 2]]).repeat(len(q), 1), torch.tensor([[1.0, 2.0]]).repeat(len(q), 1)
        ),
        "names the best first",
    ),
    "nominator with holes": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(torch.tensor([[-1, 2]]).repeat(len(q), 1), torch.ones(len(q), 2)),
        "names the best first",
    ),
    "nominator that leaves strangers out": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(q.user[:, None][known(q) > 0][:, None], torch.ones(len(q), 1)),
        r"names items and scores of the shape \[B, K\]",
    ),
}


@pytest.mark.parametrize(("kind", "verb", "does", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_stage_that_breaks_its_contract_is_caught_and_the_clause_is_named(kind, verb, does, message):
    broken = type("Mine", (kind,), {verb: lambda self, *given: does(*given)})
    with pytest.raises(
        GrammarError, match=f"'mine' .Mine. breaks its contract: it must be one that {message}"
    ):
        check_stage(broken(), 20)


def test_a_nominator_that_ignores_its_limit_by_overriding_the_call_is_caught():
    class Endless(Toy.Nominator):
        def __call__(self, query, found):
            return self.nominate(query)

    with pytest.raises(GrammarError, match="names at most its limit"):
        check_stage(Endless(limit=2), 20)


def test_a_stage_that_makes_something_of_nothing_is_caught():
    class Maker(Toy.Scorer):
        def __call__(self, query, found):
            return super().__call__(query, found) if found.shape[1] else Toy.Nominator().nominate(query)

    with pytest.raises(GrammarError, match="makes nothing of nothing"):
        check_stage(Maker(), 20)


def test_a_stage_that_doubles_candidates_in_a_pipeline_is_caught():
    class Doubler(Toy.Scorer):
        def __call__(self, query, found):
            return found.take(torch.arange(found.shape[1]).repeat(len(query), 2))

    with pytest.raises(ConservationError, match="the same item stands twice"):
        check_stage(Doubler(), 20)


def test_a_stage_of_no_kind_is_told_what_to_derive_from():
    class Formless(Stage):
        def __call__(self, query, found):
            return found

    with pytest.raises(
        GrammarError, match="Formless: derive it from Nominator, Filter, Hydrator, Scorer or Selector"
    ):
        check_stage(Formless(), 20)


def test_our_own_sloppy_toy_would_not_pass():
    with pytest.raises(ShortlistError, match="chooses"):
        check_stage(Last(), 20)
