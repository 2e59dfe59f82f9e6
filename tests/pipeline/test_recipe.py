"""Recipes: TOML to pipeline and back; errors name the file, the line and the key."""

import tomllib
from dataclasses import dataclass
from keyword import iskeyword

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Pipeline, Pool, Scorer, leaves
from shortlist.pipeline import (
    Optional,
    Recipe,
    Within,
    assemble,
    parse_recipe,
    read_recipe,
    to_recipe,
    to_toml,
)
from shortlist.pipeline.recipe import StageConfig, line_of
from shortlist.pipeline.registry import TYPES
from shortlist.stages import Explore, Seen
from tests.worlds import (
    Label,
    Last,
    RandomFilter,
    RandomNominator,
    RandomScorer,
    listed,
    query_of,
    run_checked,
    tiny,
)

TEXT = """\
name = "classic"
pipeline = "popular % 50 >> seen >> diverse % 10"

[stages.popular]
type = "popular"
days = 14.0

[stages.seen]
type = "seen"

[stages.seen.train]
anything = [1, 2]

[stages.diverse]
type = "diverse"

[train]
requests = 100
"""


def test_recipe_has_the_content_of_the_file():
    recipe = parse_recipe(TEXT, "some/classic.toml")
    assert recipe.name == "classic"
    assert list(recipe.stages) == ["popular", "seen", "diverse"]
    assert recipe.stages["popular"] == StageConfig("popular", {"days": 14.0})
    assert recipe.stages["seen"].train == {"anything": [1, 2]}
    assert recipe.training == {"requests": 100}
    assert recipe.where("seen") == "some/classic.toml: [stages.seen]"


def test_recipe_without_a_name_has_the_name_of_its_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace('name = "classic"\n', ""))
    assert read_recipe(path).name == "mine"


REFUSALS = {
    "an unknown key at the top": (
        'pipeline = "',
        'colour = 1\npipeline = "',
        ":2: unknown key 'colour'; expected one of name",
    ),
    "an unknown table": ("[train]", "[tarin]", ":17: unknown key 'tarin'"),
    "an unknown setting": (
        "days = 14.0",
        "weeks = 2",
        r":6: \[stages.popular\]: unknown key 'weeks'; expected one of days",
    ),
    "a size in the table": ("days = 14.0", "limit = 2", r":6: \[stages.popular\]: unknown key 'limit'"),
    "a setting of another type": (
        "days = 14.0",
        'days = "2"',
        r":6: \[stages.popular\]: days must be a number, got '2'",
    ),
    "an unknown type": (
        '"diverse"',
        '"divers"',
        r":14: \[stages.diverse\]: unknown type 'divers'; expected one of popular",
    ),
    "no type": ('type = "seen"\n', "", r":8: \[stages.seen\]: expected a table with a type"),
    "a type that is no text": (
        'type = "seen"',
        "type = 3",
        r":8: \[stages.seen\]: expected a table with a type",
    ),
    "a stage that is no table": (
        '[stages.popular]\ntype = "popular"\ndays = 14.0\n',
        "[stages]\npopular = 3\n",
        r"\[stages.popular\]: expected a table with a type",
    ),
    "a stage that is not used": (
        ">> seen ",
        "",
        r":8: \[stages.seen\] is not used in the pipeline; use it or remove it",
    ),
    "a stage without a table": (
        ">> seen",
        ">> seen >> rank",
        r":2: stage 'rank' has no table \[stages.rank\]",
    ),
    "a name that is no identifier": (
        "[stages.seen]",
        '[stages."my seen"]',
        "a stage's name must be letters, digits and _",
    ),
    "a reserved name": ("[stages.seen]", "[stages.lambda]", "'lambda' is a reserved word"),
    "no pipeline": (
        'pipeline = "popular % 50 >> seen >> diverse % 10"\n',
        "",
        ":1: expected a text 'pipeline', got None",
    ),
    "a pipeline that is no text": (
        '"popular % 50 >> seen >> diverse % 10"',
        "3",
        ":2: expected a text 'pipeline', got 3",
    ),
    "a bad expression": (">> seen", ">>> seen", ":2: pipeline: expected stages joined by"),
    "one > too few": (">> seen", "> seen", ":2: pipeline: expected stages joined by .*write >> for >"),
    "a selector in a pool": (
        "seen >> diverse",
        "diverse + seen",
        ":2: pipeline: only nominators can be pooled",
    ),
    "code": (">> seen", ">> __import__('os')", ":2: stage '__import__' has no table"),
    "a name that is no text": ('name = "classic"', "name = 3", ":1: expected a text 'name', got 3"),
    "training that is no table": (
        'name = "classic"',
        "train = 3",
        ":1: expected a table 'train', got 3|is not TOML",
    ),
    "a stage's training that is no table": (
        "[stages.seen.train]\nanything = [1, 2]",
        "train = 3",
        r":\d+: \[stages.seen\]: train must be a table",
    ),
    "no TOML": ("days = 14.0", "days = ", ":6: is not TOML: Invalid value"),
    "an open quote": ('type = "diverse"', 'type = "diverse', ":14: is not TOML|:15: is not TOML"),
    "a key twice": ("days = 14.0", "days = 1.0\ndays = 2.0", ":7: is not TOML: Cannot overwrite a value"),
}


@pytest.mark.parametrize(("old", "new", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_invalid_recipe_is_refused_with_file_line_and_key(old, new, message):
    assert old in TEXT
    with pytest.raises(ConfigError, match=r"^some/file\.toml:\d+: ") as refused:
        parse_recipe(TEXT.replace(old, new), "some/file.toml")
    assert refused.match(message)


def test_file_that_is_missing_or_not_text_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: no such file; expected a recipe in TOML"):
        read_recipe(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"bytes\.toml: is not UTF-8 text"):
        read_recipe(tmp_path / "bytes.toml")


def test_reading_a_recipe_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("__import__('os').mkdir('canary')", "popular >> open('canary', 'w')"):
        with pytest.raises(ConfigError):
            parse_recipe(TEXT.replace("popular % 50 >> seen >> diverse % 10", text))
    assert list(tmp_path.iterdir()) == []


def test_line_of_a_table_or_key_is_found():
    assert line_of(TEXT, "stages.diverse") == 14
    assert line_of(TEXT, "stages.popular", "days") == 6
    assert line_of(TEXT, "", "pipeline") == 2
    assert line_of(TEXT, "stages.nobody", "days") == 1


TOYS = {"drawn": RandomNominator, "sieve": RandomFilter, "dice": RandomScorer, "label": Label, "last": Last}
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda name: not iskeyword(name) and name not in ("Optional", "Within")
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), texts),
    lambda one: st.lists(one, max_size=3),
    max_leaves=5,
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(names, min_size=4, max_size=4, unique=True),
    texts,
    st.integers(),
    st.booleans(),
    st.integers(1, 99),
)
def test_pipeline_survives_the_round_trip_through_toml(called, column, salt, broken, k):
    nominator, dice, label, last = called
    pool = RandomNominator(salt=salt, name=nominator) % k
    pipeline = (
        pool
        >> RandomScorer(salt=salt, broken=broken, name=dice) % k
        >> Label(column, name=label)
        >> Last(name=last) % k
    )
    text = to_toml(to_recipe(pipeline, column, TOYS))
    back = parse_recipe(text, "there.toml", TOYS)
    assert back.name == column
    made = assemble(back, {}, TOYS)
    assert repr(made) == repr(pipeline)
    both = [[stage.settings() for stage in leaves(one)] for one in (made, pipeline)]
    assert both[0] == both[1]


@settings(max_examples=80, deadline=None)
@given(texts, st.dictionaries(texts, plain, max_size=3), st.dictionaries(texts, plain, max_size=3))
def test_recipe_survives_the_round_trip_through_toml(name, training, train):
    recipe = Recipe(name, "new_1 % 3", {"new_1": StageConfig("popular", {"days": 4}, train)}, training)
    text = to_toml(recipe)
    assert tomllib.loads(text)["name"] == name
    back = parse_recipe(text)
    assert (back.name, back.expression, back.stages, back.training) == (
        recipe.name,
        recipe.expression,
        recipe.stages,
        recipe.training,
    )


def test_table_inside_the_training_settings_survives_the_round_trip():
    recipe = Recipe("x", "new", {"new": StageConfig("recent")}, {"deep": {"a b": 1, "c": [1.5, True]}})
    assert parse_recipe(to_toml(recipe)).training == recipe.training


def test_tiny_pipeline_is_assembled_with_its_weights():
    pipeline = tiny()
    weights = {stage.title: stage.tensors() for stage in leaves(pipeline)}
    back = assemble(parse_recipe(to_toml(to_recipe(pipeline)), "p.toml"), weights)
    assert repr(back) == repr(pipeline)
    query = query_of([1, 2, 3], [], [7])
    assert torch.equal(run_checked(back, query).scores, run_checked(pipeline, query).scores)


def test_stages_without_a_name_are_written_under_their_class_name():
    recipe = to_recipe(
        RandomNominator() % 5 >> Optional(Within(RandomScorer(), ms=3) % 4) >> Last(), types=TOYS
    )
    assert recipe.expression == "randomnominator % 5 >> Optional(Within(randomscorer, ms=3) % 4) >> last % 10"
    assert list(recipe.stages) == ["randomnominator", "randomscorer", "last"]


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            RandomNominator() >> Seen(),
            "stage 'randomnominator': RandomNominator is not among the known types; pass types=",
        ),
        (Pipeline((Seen(name="my seen"),)), "a stage's name must be letters, digits and _, got 'my seen'"),
        (Pipeline((Seen(name="../x"),)), "got '../x'"),
        (Pipeline((Seen(name="class"),)), "'class' is a reserved word"),
        (Pipeline((Seen(name="Optional"),)), "'Optional' is a reserved word"),
        (Pipeline((Seen(name="a"), Pipeline((Seen(name="a"),)))), "two stages are called 'a'"),
        (
            Pipeline((Seen(), Pipeline((Explore(),), name="deep"))),
            "'deep': only leaf stages have names in TOML",
        ),
    ],
)
def test_pipeline_that_toml_cannot_express_is_refused(pipeline, message):
    with pytest.raises(ConfigError, match=message):
        to_recipe(pipeline)


def test_pool_with_a_name_is_refused():
    named = Pool((RandomNominator(name="a"),), name="both") + RandomNominator(name="b")
    with pytest.raises(ConfigError, match="'both': only leaf stages have names"):
        to_recipe(named >> RandomScorer(), types=TOYS)


def test_stage_without_its_weights_is_refused():
    recipe = parse_recipe('pipeline = "popular"\n[stages.popular]\ntype = "popular"\n', "p.toml")
    with pytest.raises(
        ConfigError, match=r"p.toml: \[stages.popular\]: the stage cannot be built .* is it trained"
    ):
        assemble(recipe, {})


def test_weights_of_the_wrong_size_are_refused():
    pipeline = tiny()
    weights = {stage.title: stage.tensors() for stage in leaves(pipeline)}
    weights["prerank"]["output.bias"] = torch.zeros(3)
    with pytest.raises(ConfigError, match=r"\[stages.prerank\]: the stage cannot be built .*size mismatch"):
        assemble(to_recipe(pipeline), weights)


def test_error_names_the_damaged_stage():
    stages = '[stages.rank]\ntype = "din-ranker"\n[stages.popular]\ntype = "popular"\n'
    recipe = parse_recipe(f'pipeline = "popular >> rank"\n{stages}', "p.toml")
    with pytest.raises(
        ArtifactError, match=r"p.toml: \[stages.rank\]: din-ranker: tensor '[a-z.]+' is missing"
    ):
        assemble(recipe, {})


def test_types_of_the_given_table_can_be_used():
    @dataclass(frozen=True, eq=False, repr=False)
    class Zero(Scorer):
        def score(self, query, found):
            return torch.zeros(found.shape)

    types = {**TYPES, **TOYS, "zero": Zero}
    text = 'pipeline = "drawn >> zero % 3"\n[stages.drawn]\ntype = "drawn"\n[stages.zero]\ntype = "zero"\n'
    pipeline = assemble(parse_recipe(text, types=types), {}, types)
    assert run_checked(pipeline, query_of()).items.shape == (1, 3)
    assert [stage.title for stage in leaves(pipeline)] == ["drawn", "zero"]
    assert leaves(listed("a", [1]))[0].title == "a"


def test_setting_out_of_range_is_refused_when_the_recipe_is_parsed():
    text = 'name = "t"\npipeline = "tree"\n\n[stages.tree]\ntype = "tree"\nbeam = 0\n'
    with pytest.raises(ConfigError, match=r"t.toml:6: \[stages.tree\]: beam must be at least 1, got 0"):
        parse_recipe(text, "t.toml")


def test_key_renamed_in_0_2_0_is_refused_with_its_new_name():
    text = 'name = "t"\npipeline = "tree"\n\n[stages.tree]\ntype = "tree"\nfresh = true\n'
    with pytest.raises(
        ConfigError, match=r"t.toml:6: .* unknown key 'fresh'; fresh was renamed to exclude_seen in 0.2.0"
    ):
        parse_recipe(text, "t.toml")


def test_type_replaced_in_0_2_0_is_refused_with_what_to_write_now():
    text = 'name = "t"\npipeline = "p"\n\n[stages.p]\ntype = "popular-in-window"\n'
    with pytest.raises(ConfigError, match=r't.toml:4: .*; write type = "popular" with days; expected one of'):
        parse_recipe(text, "t.toml")


@pytest.mark.parametrize("text", ["a %\n 5", '\n"""a"""\\ \t\r\n', "\n\n"])
def test_expression_of_several_lines_survives_toml(text):
    assert tomllib.loads(to_toml(Recipe("r", text, {})))["pipeline"] == text
