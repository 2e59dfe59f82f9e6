"""check_stage passes the stages of the package and reports every broken rule."""

from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates
from shortlist.errors import ConservationError, GrammarError, ShortlistError
from shortlist.grammar import Filter, Hydrator, Nominator, Scorer, Selector, Stage, leaves
from shortlist.pipeline import Optional, Within
from shortlist.stages import Explore
from shortlist.testing.stages import check_stage
from tests.worlds import N_ITEMS, Label, Last, RandomFilter, RandomScorer, listed, tiny

NAMES = ("popular", "covisit", "nearest")


@pytest.mark.parametrize("stage", [*leaves(tiny()), Explore()], ids=lambda stage: stage.title)
def test_stages_of_the_package_keep_the_contract(stage):
    check_stage(stage, N_ITEMS, NAMES)


@pytest.mark.parametrize(
    "stage",
    [
        RandomScorer(),
        RandomScorer() % 3,
        RandomFilter(),
        Label(),
        listed("a", [1, 2]),
        Optional(RandomScorer()),
        Within(RandomScorer(), ms=60_000),
        tiny(),
    ],
    ids=repr,
)
def test_cuts_guards_and_pipelines_can_be_checked(stage):
    check_stage(stage, N_ITEMS, NAMES)


def test_small_catalogues_can_be_checked():
    for n_items in (1, 2, 5):
        check_stage(RandomScorer(), n_items)
        check_stage(Explore(), n_items)


class Toy:
    """The simplest stage of each kind that keeps its contract; the tests break one rule at a time."""

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
def test_simplest_stage_of_each_kind_passes(kind):
    check_stage(kind(), 20)


def longest(query):
    return query.history.shape[1]


def known(query):
    return (query.history >= 0).sum(1, keepdim=True)


CALLS = [0]


def nondeterministic(query, found):
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
        "returns one score per candidate",
    ),
    "scorer per request": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float().sum(1),
        "returns one score per candidate",
    ),
    "scorer of non-finite scores": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items / 0.0 * 0,
        "returns finite scores",
    ),
    "scorer that changes scores in place": (Toy.Scorer, "score", mutate, "leaves its input unchanged"),
    "scorer that changes the request": (Toy.Scorer, "score", mutate_query, "leaves its input unchanged"),
    "scorer that is not deterministic": (
        Toy.Scorer,
        "score",
        nondeterministic,
        "returns the same result when called twice",
    ),
    "scorer that looks at the batch": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float() - f.items.float().mean(),
        "returns the same result for a request alone and in a batch",
    ),
    "scorer that looks at the padding": (
        Toy.Scorer,
        "score",
        lambda q, f: f.items.float() * longest(q),
        "does not depend on the amount of padding",
    ),
    "filter of numbers": (Toy.Filter, "keep", lambda q, f: f.items, "returns one boolean per candidate"),
    "filter of the wrong shape": (
        Toy.Filter,
        "keep",
        lambda q, f: known(q) > 0,
        "returns one boolean per candidate",
    ),
    "hydrator of the wrong shape": (
        Toy.Hydrator,
        "columns",
        lambda q, f: {"age": f.items[:, :2]},
        r"returns column 'age' with the shape \[B, K\]",
    ),
    "selector of positions that do not exist": (
        Toy.Selector,
        "select",
        lambda q, f: torch.full((len(q), 1), f.shape[1]),
        "selects positions that exist",
    ),
    "selector of invalid candidates": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmin(1, keepdim=True),
        "selects valid candidates",
    ),
    "selector that selects twice": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmax(1, keepdim=True).repeat(1, 2),
        "selects each candidate once",
    ),
    "selector that needs candidates": (
        Toy.Selector,
        "select",
        lambda q, f: f.valid.int().argmax(1, keepdim=True),
        "handles requests without candidates; it raised IndexError",
    ),
    "scorer that raises": (
        Toy.Scorer,
        "score",
        raising,
        "handles .*; it raised KeyError: 'popular.rank'",
    ),
    "nominator of unknown rows": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(torch.full((len(q), 1), 20), torch.ones(len(q), 1)),
        "nominates rows of the catalogue",
    ),
    "nominator without order": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(
            torch.tensor([[1, 2]]).repeat(len(q), 1), torch.tensor([[1.0, 2.0]]).repeat(len(q), 1)
        ),
        "nominates the best first",
    ),
    "nominator with holes": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(torch.tensor([[-1, 2]]).repeat(len(q), 1), torch.ones(len(q), 2)),
        "nominates the best first",
    ),
    "nominator that drops users without history": (
        Toy.Nominator,
        "nominate",
        lambda q: Candidates.of(q.user[:, None][known(q) > 0][:, None], torch.ones(len(q), 1)),
        r"nominates items and scores of the shape \[B, K\]",
    ),
}


@pytest.mark.parametrize(("kind", "verb", "does", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_rule_is_reported(kind, verb, does, message):
    broken = type("Mine", (kind,), {verb: lambda self, *given: does(*given)})
    with pytest.raises(
        GrammarError, match=f"'mine' .Mine. breaks its contract: it must be a stage that {message}"
    ):
        check_stage(broken(), 20)


def test_nominator_that_ignores_its_limit_is_reported():
    class Endless(Toy.Nominator):
        def __call__(self, query, found):
            return self.nominate(query)

    with pytest.raises(GrammarError, match="nominates at most its limit"):
        check_stage(Endless(limit=2), 20)


def test_stage_that_invents_candidates_is_reported():
    class Maker(Toy.Scorer):
        def __call__(self, query, found):
            return super().__call__(query, found) if found.shape[1] else Toy.Nominator().nominate(query)

    with pytest.raises(GrammarError, match="returns no candidate when it gets none"):
        check_stage(Maker(), 20)


def test_stage_that_duplicates_candidates_is_reported():
    class Doubler(Toy.Scorer):
        def __call__(self, query, found):
            return found.take(torch.arange(found.shape[1]).repeat(len(query), 2))

    with pytest.raises(ConservationError, match="returned the same item twice"):
        check_stage(Doubler(), 20)


def test_stage_of_no_kind_is_refused():
    class Formless(Stage):
        def __call__(self, query, found):
            return found

    with pytest.raises(
        GrammarError,
        match="Formless has no kind: derive it from Nominator, Filter, Hydrator, Scorer or Selector",
    ):
        check_stage(Formless(), 20)


def test_selector_that_repeats_candidates_does_not_pass():
    with pytest.raises(ShortlistError, match="selects"):
        check_stage(Last(), 20)
