"""The grammar: three operators, five kinds, and a sentence for whatever has no meaning."""

import math
from dataclasses import dataclass

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import GrammarError
from shortlist.grammar import Nominator, Pipeline, Pool, Scorer, Selector, Stage, Top, as_pipeline, kind_of
from shortlist.pipeline.expression import parse
from shortlist.pipeline.recipe import leaves
from tests.worlds import Dice, Drawn, Label, Last, Listed, Sieve, asked, found, listed, run_checked, tiny

a, b, c = (listed(name, [1, 2, 3]) for name in "abc")
sieve, dice, last = Sieve(name="sieve"), Dice(name="dice"), Last(name="last")


def test_the_line_of_the_docstring_needs_no_parentheses():
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


def test_the_order_in_which_stages_are_joined_does_not_matter():
    one = (a + b) + c >> (sieve >> (dice % 5 >> last % 2))
    other = ((a + (b + c) >> sieve) >> dice % 5) >> last % 2
    assert repr(one) == repr(other) == "a % 100 + b % 100 + c % 100 >> sieve >> dice % 5 >> last % 2"
    assert len(one.stages) == 4
    assert len(one.nominators) == 3


def test_a_pipeline_reads_back_from_its_repr():
    pipeline = tiny()
    known = {stage.title: stage for stage in leaves(pipeline)}
    back = parse(repr(pipeline), known)
    assert repr(back) == repr(pipeline)
    query = asked([1, 2], [])
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
def test_every_form_of_expression_reads_back_as_it_stands(text):
    known = {"a": a, "b": b, "c": c, "sieve": sieve, "dice": dice, "last": last}
    pipeline = parse(text, known)
    assert repr(pipeline) == text
    run_checked(pipeline, asked([1]))


def test_percent_sets_the_limit_of_a_nominator_the_size_of_a_selector_and_cuts_all_others():
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


def test_a_lone_nominator_becomes_a_pool_of_one_however_the_pipeline_is_made():
    for made in (as_pipeline(a), a >> dice, Pipeline((a, dice)), Pipeline((a,))):
        assert isinstance(made.stages[0], Pool)
        assert [part.title for part in made.nominators] == ["a"]
        assert run_checked(made, asked()).items[0].tolist() != []
    assert (a >> dice).nominators == (a,)


def test_what_a_stage_counts_as():
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
    """Of no kind."""

    def __call__(self, query, found):
        return found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a + dice, "only nominators can be pooled with \\+, 'dice' is a scorer"),
        (lambda: sieve + a, "only nominators can be pooled with \\+, 'sieve' is a filter"),
        (lambda: a + a, "two nominators of a pool are called 'a'; give one of them another name"),
        (lambda: a >> b, "nominator 'b' stands after >>: pool it with \\+ before the first >>"),
        (lambda: a >> dice >> b + c, "nominator 'pool' stands after >>"),
        (lambda: a >> dice >> dice % 3, "two stages of a pipeline are called 'dice'"),
        (lambda: a >> Formless(), "Formless is none of the five kinds: derive it from Nominator, Filter"),
        (lambda: Pipeline(()), "a pipeline needs at least one stage"),
        (lambda: Pool(()), "a pool needs at least one nominator"),
        (lambda: as_pipeline(sieve >> dice), "sieve >> dice begins with a filter; begin with a nominator"),
        (lambda: as_pipeline(dice), "dice begins with a scorer; begin with a nominator"),
        (lambda: a >> Sieve, r"expected a stage beside \+ or >>, got .*Sieve.*; make one with Sieve\(...\)"),
        (lambda: a + 3, r"expected a stage beside \+ or >>, got 3"),
    ],
)
def test_what_has_no_meaning_is_refused_with_a_sentence(make, message):
    with pytest.raises(GrammarError, match=message):
        make()


def test_a_stage_has_the_name_it_was_given_or_that_of_its_class():
    assert (Dice().title, Dice(name="x").title, (dice % 3).title) == ("dice", "x", "dice")
    assert ((a + b).title, (a >> dice).title, Pool((a,), name="p").title) == ("pool", "pipeline", "p")
    assert repr(Dice(salt=3)) == "Dice(salt=3, sides=5, broken=False)"
    assert repr(Dice(salt=3, name="x")) == "Dice(name='x', salt=3, sides=5, broken=False)"
    assert repr(Dice() % 3) == "Dice(salt=0, sides=5, broken=False) % 3"
    assert repr(as_pipeline(Drawn())) == "Drawn(limit=100, n_items=40, width=12, salt=0)"


def test_a_pool_with_a_name_stays_one_part_of_another():
    named = Pool((a, b), name="both")
    assert [part.title for part in (named + c).parts] == ["both", "c"]


def test_a_stage_comes_back_from_its_settings_and_tensors():
    back = Listed.build(a.settings(), a.tensors())
    assert repr(back) == repr(a)
    assert torch.equal(back.rows, a.rows)
    assert Dice.build(Dice(salt=9).settings(), {}).salt == 9
    assert dice.renewed(salt=4).salt == 4


def test_a_nominator_names_at_most_its_limit_and_then_the_best():
    named = listed("n", [5, 6, 7], [0.1, 0.9, 0.5]) % 2
    assert named(asked(), Candidates.none(1)).items.tolist() == [[6, 7]]
    assert listed("n", [5, 6])(asked(), Candidates.none(1)).items.tolist() == [[5, 6]]


def test_a_repeat_belongs_to_the_first_nominator_of_a_pool():
    slate = run_checked(listed("x", [1, 2]) + listed("y", [2, 3]), asked())
    sources = dict(zip(slate.items[0].tolist(), slate.candidates.source[0].tolist(), strict=True))
    assert {item: source for item, source in sources.items() if item >= 0} == {1: 0, 2: 0, 3: 1}


def test_scores_that_are_no_finite_numbers_sink_and_are_counted():
    @dataclass(frozen=True, eq=False, repr=False)
    class Odd(Scorer):
        def score(self, query, found):
            return torch.tensor([[math.nan, math.inf, -5.0, -math.inf, 1.0]]).expand(found.shape)

    slate = run_checked(listed("n", [0, 1, 2, 3, 4]) >> Odd(), asked([], []))
    assert slate.items[0].tolist() == [4, 2, 0, 1, 3]
    assert slate.scores[0].tolist() == [1.0, -5.0, -math.inf, -math.inf, -math.inf]
    (note,) = slate.trace.steps[1].notes
    assert (note.stage, note.what, note.count.tolist()) == ("odd", "nonfinite", [3, 3])


def test_broken_scores_at_empty_places_are_nobodys_business():
    @dataclass(frozen=True, eq=False, repr=False)
    class Blind(Scorer):
        def score(self, query, found):
            return torch.where(found.valid, 1.0, math.nan)

    assert Blind()(asked(), found([1.0, None])).notes == ()


def test_a_selector_that_chooses_twice_or_nothing_or_too_much_is_held_to_its_word():
    @dataclass(frozen=True, eq=False, repr=False)
    class Sloppy(Selector):
        def select(self, query, found):
            return torch.tensor([[2, 2, -1, 1, 0]])

    chosen = (Sloppy() % 4)(asked(), found([1.0, None, 3.0]))
    assert chosen.items.masked_fill(~chosen.valid, -1).tolist() == [[2, -1, -1, -1]]
    assert Sloppy()(asked(), Candidates.none(1)).shape == (1, 0)


def test_calling_a_pipeline_is_running_it_without_the_account():
    pipeline = tiny()
    query = asked([3, 4], [])
    called = pipeline(query, Candidates.none(2))
    assert torch.equal(called.items.masked_fill(~called.valid, -1), run_checked(pipeline, query).items)


def test_stages_cannot_be_changed():
    with pytest.raises(AttributeError):
        dice.salt = 4


def test_a_kind_without_its_verb_does_not_answer():
    class Mute(Nominator):
        pass

    assert Mute().nominate(Query.of([[]])) is None
