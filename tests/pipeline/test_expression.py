"""Expressions: parsed as stages and operators, never run as code."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ConfigError
from shortlist.grammar import Pipeline
from shortlist.pipeline.expression import names_in, parse
from tests.worlds import Last, RandomFilter, RandomScorer, listed

KNOWN = {
    "a": listed("a", [1]),
    "b": listed("b", [2]),
    "sieve": RandomFilter(name="sieve"),
    "dice": RandomScorer(name="dice"),
    "last": Last(name="last"),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", "a % 100"),
        ("  a % 5 + b\n  >> sieve\n  >> dice % 3  # the best\n", "a % 5 + b % 100 >> sieve >> dice % 3"),
        ("a >> Optional(dice % 3)", "a % 100 >> Optional(dice % 3)"),
        ("Within(a, ms=2.5) + b >> last % 2", "Within(a % 100, ms=2.5) + b % 100 >> last % 2"),
        ("(a + b) % 4 >> ((dice))", "(a % 100 + b % 100) % 4 >> dice"),
    ],
)
def test_expression_is_parsed_as_a_pipeline(text, expected):
    assert repr(parse(text, KNOWN)) == expected


def test_names_of_an_expression_are_in_order_and_without_guards():
    assert names_in("b % 5 + Optional(a)\n >> Within(dice, ms=3) >> sieve") == ["b", "a", "dice", "sieve"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected stages joined by"),
        ("a >>", r"expected stages joined by \+ % >>, got 'a >>' \(invalid syntax\)"),
        ("a >> nobody", r"stage 'nobody' has no \[stages.nobody\]; known are a, b, sieve, dice, last"),
        ("a - b", "expected stages joined by .* got 'a - b'"),
        ("a % dice", "expected a number, got 'dice'"),
        ("a % -3", "expected a number, got '-3'"),
        ("a % True", "expected a number, got 'True'"),
        ("a % 2.5", "k must be a positive integer, got 2.5"),
        ("a % 0", "k must be a positive integer, got 0"),
        ("3 % a", "expected stages joined by .* got '3'"),
        ("'a'", "expected stages joined by"),
        ("sieve >> dice", "begins with a filter; begin with a nominator"),
        ("a >> b", "nominator 'b' after >>"),
        ("a + a", "two nominators of a pool are called 'a'"),
        ("a + dice", "only nominators can be pooled"),
        ("a >> Optional(sieve)", "a skipped filter would let every candidate pass"),
        ("a >> Within(dice)", r"expected Optional\(stage\) or Within\(stage, ms=30\), got 'Within\(dice\)'"),
        ("a >> Within(dice, ms=0)", "ms must be positive"),
        ("a >> Within(dice, ms='3')", "expected a number"),
        ("a >> Optional(dice, ms=3)", "expected Optional"),
        ("a >> Optional(*dice)", "expected stages joined by"),
        ("a >> Within(dice, **dice)", "expected Optional"),
        ("a \u0000", "expected stages joined by"),
        ("(" * 300 + "a" + ")" * 300, "expected stages joined by"),
        ("a" + " >> dice" * 20_000, "nested too deeply|expected stages joined by"),
    ],
)
def test_invalid_expression_is_refused_with_its_location(text, message):
    with pytest.raises(ConfigError, match=message) as refused:
        parse(text, KNOWN, "here")
    assert str(refused.value).startswith("here: ")


CODE = [
    "__import__('os')",
    "__import__('os').mkdir('canary')",
    "__import__('os').system('touch canary')",
    "a >> open('canary', 'w')",
    "[open('canary', 'w') for x in 'a']",
    "(lambda: open('canary', 'w'))()",
    "a.__class__",
    "a if a else b",
    "a[0]",
    'f\'{open("canary", "w")}\'',
    "Optional(exec('open(chr(99), chr(119))'))",
    "(x := a)",
    "a >> dice.score",
    "Optional.__init__(a)",
    "a % (2 ** 99)",
]


@pytest.mark.parametrize("text", CODE)
def test_code_is_refused_and_not_run(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        parse(text, KNOWN)
    assert list(tmp_path.iterdir()) == []


tokens = st.sampled_from([*"ab()%+>.,=03 '[]", ">>", " >> ", "sieve", "dice", "Optional(", "ms=", "lambda "])


@settings(max_examples=150, deadline=None)
@given(st.lists(tokens).map("".join))
def test_any_text_is_a_pipeline_or_a_config_error(text):
    with suppress(ConfigError):
        assert isinstance(parse(text, KNOWN), Pipeline)
