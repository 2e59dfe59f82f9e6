"""The grammar: three operators, five kinds, and errors for invalid combinations."""

import math
from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError, GrammarError
from shortlist.grammar import (
    Knob,
    Nominator,
    Pipeline,
    Pool,
    Scorer,
    Selector,
    Stage,
    Top,
    as_pipeline,
    bare,
    kind_of,
    leaves,
    map_leaves,
)
from shortlist.pipeline import Optional, Within
from shortlist.pipeline.expression import parse
from tests.worlds import (
    Label,
    Last,
    Listed,
    RandomFilter,
    RandomNominator,
    RandomScorer,
    found,
    listed,
    query_of,
    run_checked,
    tiny,
)

a, b, c = (listed(name, [1, 2, 3]) for name in "abc")
sieve, dice, last = RandomFilter(name="sieve"), RandomScorer(name="dice"), Last(name="last")


def test_pipeline_expression_needs_no_parentheses():
    line = a % 500 + b % 50 >> sieve >> dice % 50 >> last % 10
    assert repr(line) == "a % 500 + b % 50 >> sieve >> dice % 50 >> last % 10"
    pool, first, second, third = line.stages
    assert isinstance(pool, Pool)
    assert [part.limit for part in pool.parts] == [500, 50]
    assert first is sieve
    assert isinstance(second, Top)
    assert (second.inner, second.k) == (dice, 50)
    assert isinstance(third, Last)
    assert third.k == 10


def test_operators_are_associative():
    one = (a + b) + c >> (sieve >> (dice % 5 >> last % 2))
    other = ((a + (b + c) >> sieve) >> dice % 5) >> last % 2
    assert repr(one) == repr(other) == "a % 100 + b % 100 + c % 100 >> sieve >> dice % 5 >> last % 2"
    assert len(one.stages) == 4
    assert len(one.nominators) == 3


def test_pipeline_is_parsed_from_its_repr():
    pipeline = tiny()
    known = {stage.title: stage for stage in leaves(pipeline)}
    back = parse(repr(pipeline), known)
    assert repr(back) == repr(pipeline)
    query = query_of([1, 2], [])
    assert torch.equal(run_checked(back, query).items, run_checked(pipeline, query).items)


@pytest.mark.parametrize(
    "text",
    [
        "a % 3",
        "(a % 3 + b % 100) % 2 + c % 100 >> sieve",
        "(a % 3 >> sieve) + b % 100 >> dice % 5",
        "Optional(a % 3) + Within(b % 2, ms=30) >> Optional(dice) % 5 >> Optional(last % 3)",
        "(a % 3 + b % 9) % 4 >> sieve % 3",
        "a % 3 >> (dice % 4) % 2",
    ],
)
def test_every_form_of_expression_survives_the_round_trip(text):
    known = {"a": a, "b": b, "c": c, "sieve": sieve, "dice": dice, "last": last}
    pipeline = parse(text, known)
    assert repr(pipeline) == text
    run_checked(pipeline, query_of([1]))


def test_percent_sets_limit_or_k_and_cuts_other_stages():
    assert (a % 7).limit == 7
    assert (last % 7).k == 7
    for stage in (sieve, dice, Label(), a + b):
        assert isinstance(stage % 7, Top)
    assert repr((a >> dice) % 7) == "a % 100 >> dice % 7", "a pipeline is cut where it ends"
    assert repr((a >> last % 9) % 7) == "a % 100 >> last % 7"


@pytest.mark.parametrize("k", [0, -1, 2.0, True, "3", None])
def test_percent_takes_positive_integers_only(k):
    with pytest.raises(GrammarError, match=rf"dice % k: k must be a positive integer, got {k!r}"):
        dice % k


def test_lone_nominator_becomes_a_pool_of_one():
    for made in (as_pipeline(a), a >> dice, Pipeline((a, dice)), Pipeline((a,))):
        assert isinstance(made.stages[0], Pool)
        assert [part.title for part in made.nominators] == ["a"]
        assert run_checked(made, query_of()).items[0].tolist() != []
    assert (a >> dice).nominators == (a,)


def test_kind_of_composite_stages():
    assert [kind_of(stage) for stage in (a, a + b, a % 3, (a + b) % 3, a >> dice, (a >> dice) % 3)] == [
        "nominator"
    ] * 6
    assert [kind_of(stage) for stage in (sieve, sieve % 3, Label(), dice, last)] == [
        "filter",
        "filter",
        "hydrator",
        "scorer",
        "selector",
    ]
    assert kind_of(sieve >> dice) == "pipeline"


@dataclass(frozen=True, eq=False, repr=False)
class Formless(Stage):
    """A stage of no kind."""

    def __call__(self, query, found):
        return found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a + dice, "only nominators can be pooled, 'dice' is a scorer"),
        (lambda: sieve + a, "only nominators can be pooled, 'sieve' is a filter"),
        (lambda: a + a, "two nominators of a pool are called 'a'; give one of them another name"),
        (lambda: a >> b, "nominator 'b' after >>: pool it with \\+ before the first >>"),
        (lambda: a >> dice >> b + c, "nominator 'pool' after >>"),
        (lambda: a >> dice >> dice % 3, "two stages of a pipeline are called 'dice'"),
        (lambda: a >> Formless(), "Formless has no kind: derive it from Nominator, Filter"),
        (lambda: Pipeline(()), "a pipeline needs at least one stage"),
        (lambda: Pool(()), "a pool needs at least one nominator"),
        (lambda: as_pipeline(sieve >> dice), "sieve >> dice begins with a filter; begin with a nominator"),
        (lambda: as_pipeline(dice), "dice begins with a scorer; begin with a nominator"),
        (
            lambda: a >> RandomFilter,
            r"expected a stage beside \+ or >>, got .*RandomFilter.*; make one with RandomFilter\(...\)",
        ),
        (lambda: a + 3, r"expected a stage beside \+ or >>, got 3"),
    ],
)
def test_invalid_combination_is_refused(make, message):
    with pytest.raises(GrammarError, match=message):
        make()


def test_title_is_the_given_name_or_the_class_name():
    assert (RandomScorer().title, RandomScorer(name="x").title, (dice % 3).title) == (
        "randomscorer",
        "x",
        "dice",
    )
    assert ((a + b).title, (a >> dice).title, Pool((a,), name="p").title) == ("pool", "pipeline", "p")
    assert repr(RandomScorer(salt=3)) == "RandomScorer(salt=3, sides=5, broken=False)"
    assert repr(RandomScorer(salt=3, name="x")) == "RandomScorer(name='x', salt=3, sides=5, broken=False)"
    assert repr(RandomScorer() % 3) == "RandomScorer(salt=0, sides=5, broken=False) % 3"
    assert repr(as_pipeline(RandomNominator())) == "RandomNominator(limit=100, n_items=40, width=12, salt=0)"


def test_pool_with_a_name_stays_one_part_of_another():
    named = Pool((a, b), name="both")
    assert [part.title for part in (named + c).parts] == ["both", "c"]


def test_stage_is_rebuilt_from_its_settings_and_tensors():
    back = Listed.build(a.settings(), a.tensors())
    assert repr(back) == repr(a)
    assert torch.equal(back.rows, a.rows)
    assert RandomScorer.build(RandomScorer(salt=9).settings(), {}).salt == 9
    assert dice.renewed(salt=4).salt == 4


def test_nominator_returns_the_best_up_to_its_limit():
    named = listed("n", [5, 6, 7], [0.1, 0.9, 0.5]) % 2
    assert named(query_of(), Candidates.none(1)).items.tolist() == [[6, 7]]
    assert listed("n", [5, 6])(query_of(), Candidates.none(1)).items.tolist() == [[5, 6]]


def test_repeated_item_belongs_to_the_first_nominator():
    slate = run_checked(listed("x", [1, 2]) + listed("y", [2, 3]), query_of())
    sources = dict(zip(slate.items[0].tolist(), slate.candidates.source[0].tolist(), strict=True))
    assert {item: source for item, source in sources.items() if item >= 0} == {1: 0, 2: 0, 3: 1}


def test_nonfinite_scores_come_last_and_are_counted():
    @dataclass(frozen=True, eq=False, repr=False)
    class Odd(Scorer):
        def score(self, query, found):
            return torch.tensor([[math.nan, math.inf, -5.0, -math.inf, 1.0]]).expand(found.shape)

    slate = run_checked(listed("n", [0, 1, 2, 3, 4]) >> Odd(), query_of([], []))
    assert slate.items[0].tolist() == [4, 2, 0, 1, 3]
    assert slate.scores[0].tolist() == [1.0, -5.0, -math.inf, -math.inf, -math.inf]
    (note,) = slate.trace.steps[1].notes
    assert (note.stage, note.what, note.count.tolist()) == ("odd", "nonfinite", [3, 3])


def test_nonfinite_scores_at_empty_places_are_ignored():
    @dataclass(frozen=True, eq=False, repr=False)
    class Blind(Scorer):
        def score(self, query, found):
            return torch.where(found.valid, 1.0, math.nan)

    assert Blind()(query_of(), found([1.0, None])).notes == ()


def test_repeated_positions_and_positions_beyond_k_are_dropped():
    @dataclass(frozen=True, eq=False, repr=False)
    class Sloppy(Selector):
        def select(self, query, found):
            return torch.tensor([[2, 2, -1, 1, 0]])

    chosen = (Sloppy() % 4)(query_of(), found([1.0, None, 3.0]))
    assert chosen.items.masked_fill(~chosen.valid, -1).tolist() == [[2, -1, -1, -1]]
    assert Sloppy()(query_of(), Candidates.none(1)).shape == (1, 0)


def test_calling_a_pipeline_gives_the_slate_without_a_trace():
    pipeline = tiny()
    query = query_of([3, 4], [])
    called = pipeline(query, Candidates.none(2))
    assert torch.equal(called.items.masked_fill(~called.valid, -1), run_checked(pipeline, query).items)


def test_stages_are_frozen():
    with pytest.raises(AttributeError):
        dice.salt = 4


def test_kind_without_its_method_returns_nothing():
    class Mute(Nominator):
        pass

    assert Mute().nominate(Query.of([[]])) is None


COMPOSITE = (a % 3 + Optional(b)) % 7 >> sieve >> Within(dice % 5, ms=3) >> last % 2


def test_children_are_the_direct_substages():
    pool, filtered, within, selector = COMPOSITE.children()
    assert [stage.title for stage in COMPOSITE.children()] == ["pool", "sieve", "dice", "last"]
    assert pool.children() == (bare(pool),)
    assert [part.title for part in bare(pool).children()] == ["a", "b"]
    assert within.children() == (within.inner,)
    assert filtered.children() == selector.children() == ()


def test_leaves_are_the_stages_without_children_in_order():
    assert [leaf.title for leaf in leaves(COMPOSITE)] == ["a", "b", "sieve", "dice", "last"]
    assert leaves(sieve) == [sieve]


def test_map_rebuilds_every_composite_with_changed_children():
    same = COMPOSITE.map(lambda child: child)
    assert (repr(same), type(same)) == (repr(COMPOSITE), Pipeline)
    assert sieve.map(lambda child: pytest.fail("a leaf has no children")) is sieve
    wide = map_leaves(COMPOSITE, lambda leaf: leaf.renewed(salt=9) if leaf.title == "dice" else leaf)
    assert [leaf.salt for leaf in leaves(wide) if leaf.title == "dice"] == [9]
    assert repr(wide) == repr(COMPOSITE), "names, cuts and guards are kept"
    assert next(leaf for leaf in leaves(COMPOSITE) if leaf.title == "dice").salt == 0


def test_stages_declare_their_knobs():
    assert (a % 5).knobs() == (Knob("limit", 5, "scale"),)
    assert (last % 4).knobs() == (Knob("k", 4, "scale"),)
    assert (dice % 6).knobs() == (Knob("k", 6, "scale"), Knob("k", 6, "off"))
    assert sieve.knobs() == COMPOSITE.knobs() == (a + b).knobs() == ()


def test_switched_off_cut_is_the_stage_without_its_cuts():
    assert (dice % 6 % 3).switched_off("k") is dice


def test_declared_settings_leave_out_name_and_size():
    assert [one.name for one in type(dice).declared()] == ["salt", "sides", "broken"]
    assert {"name", "limit", "k"} & {one.name for one in type(a).declared()} == set()


def test_field_outside_its_range_is_refused():
    with pytest.raises(ConfigError, match="a: limit must be at least 1, got 0"):
        a.renewed(limit=0)
    with pytest.raises(ConfigError, match=r"k must be a whole number, got 2\.5"):
        last.renewed(k=2.5)
