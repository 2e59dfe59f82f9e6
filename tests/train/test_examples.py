"""Which events a nominator learns from: an event of weight 0 is history only, in every trainer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Interactions, Vocabulary, half_history
from shortlist.errors import ConfigError, DataError
from shortlist.nominate.pools import Pools
from shortlist.pipeline import TYPES, parse_recipe
from shortlist.pipeline.about import TrainingHistory
from shortlist.train.context import TrainContext
from shortlist.train.loop.losses import weighted_mean
from shortlist.train.preparation.examples import EXAMPLES, check_examples, with_examples
from shortlist.train.preparation.pools_file import write_pools
from shortlist.train.registry import make_trainer, train_settings, trainer_of
from tests.train.logs import chains, log
from tests.train.test_event_weights import fitted, same

N_ITEMS = 20
OWN = np.arange(N_ITEMS) < 10
WITHOUT_HISTORIES = ["popular", "co-visit", "item-knn", "ease", "mf", "ccf", "lightgcn"]
WITH_HISTORIES: list[tuple[str, dict[str, Any]]] = [
    ("last-click", {}),
    ("sasrec", {"loss": "softmax"}),
    ("sasrec", {"loss": "sampled", "ahead": 3}),
    ("gru4rec", {"loss": "bce", "negatives": 8}),
    ("fmlp", {}),
    ("youtube-dnn", {}),
    ("sum-pooling", {}),
    ("din", {}),
    ("two-tower", {}),
    ("two-tower", {"full": 0, "negatives": 8}),
    ("tree", {"method": "dtr-u"}),
    ("tree", {"method": "dtr-u", "ahead": 3}),
    ("jtr", {}),
]
IDS = ["-".join(map(str, (name, *more.values()))) for name, more in WITH_HISTORIES]


@pytest.fixture(scope="module")
def pools_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pools") / "pools.jsonl"
    items = Vocabulary.of(list(range(N_ITEMS)))
    write_pools(path, Pools(np.stack([OWN, ~OWN])), ("it", "other"), items)
    return path


def recipe_of(name: str, examples: str, pools: object = "") -> Any:
    keys = f'examples = "{examples}"\n' + (f'pools = "{pools}"\n' if pools else "")
    return parse_recipe(
        f'pipeline = "it % 5"\n[stages.it]\ntype = "{name}"\n[stages.it.train]\n{keys}', "r.toml"
    )


def context_of(events: Interactions) -> TrainContext:
    return TrainContext(events, Catalog.bare(Vocabulary.of(list(range(N_ITEMS)))))


def under(name: str, examples: str, pools: object, events: Interactions) -> TrainContext:
    return with_examples(
        context_of(events), recipe_of(name, examples, pools), "it", trainer_of(name, {}, name)
    )


def mixed(seed: int = 0) -> Interactions:
    """Users with items of both pools in random order."""
    random = np.random.default_rng(seed)
    return log(*(random.permutation(N_ITEMS)[:12] for _ in range(30)), n_items=N_ITEMS)


@pytest.mark.parametrize("name", WITHOUT_HISTORIES)
def test_event_of_weight_0_is_left_out_of_models_without_histories(name, pools_file):
    events = mixed()
    own = fitted(name, {}, under(name, "own_pool", pools_file, events))
    assert same(own, fitted(name, {}, context_of(events.where(OWN[events.items]))))
    assert not same(own, fitted(name, {}, context_of(events)))


@pytest.mark.parametrize(("name", "more"), WITH_HISTORIES, ids=IDS)
def test_event_of_weight_0_trains_no_model_with_histories(name, more, pools_file):
    """The last items are outside the pool, so no example has them as history: which of them it is changes nothing."""
    random = np.random.default_rng(1)
    start = [random.permutation(10)[:8].tolist() for _ in range(30)]
    last = [10 + user % 10 for user in range(30)]
    swapped = last[1:] + last[:1]  # as popular as before
    one, other = (
        log(*([*items, end] for items, end in zip(start, ends, strict=True)), n_items=N_ITEMS)
        for ends in (last, swapped)
    )
    own = [fitted(name, more, under(name, "own_pool", pools_file, events)) for events in (one, other)]
    everything = [fitted(name, more, context_of(events)) for events in (one, other)]
    assert same(*own)
    assert not same(*everything)
    assert not same(own[0], everything[0])


def test_models_with_histories_keep_the_events_of_other_pools_as_history(pools_file):
    events = mixed()
    kept = under("sasrec", "own_pool", pools_file, events).events
    assert np.array_equal(kept.items, events.items)
    assert np.array_equal(kept.strengths > 0, OWN[events.items])
    assert kept.strengths[kept.strengths > 0].tolist() == [1.0] * int(OWN[events.items].sum())


def test_bert4rec_and_weights_of_events_go_together(pools_file):
    events = mixed()
    rated = replace(events, weights=np.random.default_rng(0).integers(1, 6, len(events)).astype(np.float32))
    both = under("bert4rec", "mix:0.5", pools_file, rated).events
    weights = rated.weights * np.where(OWN[events.items], 1.0, 0.5)
    assert np.allclose(both.strengths, weights / weights.mean())
    assert not same(fitted("bert4rec", {}, context_of(both)), fitted("bert4rec", {}, context_of(rated)))


def test_all_and_mix_1_change_no_event(pools_file):
    events = mixed()
    assert under("sasrec", "all", "", events).events is events
    assert under("sasrec", "mix:1", pools_file, events).events is events


def test_validation_of_a_fit_reads_the_same_requests(pools_file):
    split = half_history(replace(chains(), times=chains().times * 100_000), seed=0, held_out=0.2)
    context = replace(context_of(split.train), valid=split.valid)
    made = with_examples(context, recipe_of("sasrec", "own_pool", pools_file), "it", make_trainer("sasrec"))
    assert made.valid is split.valid


def test_fingerprint_of_events_tells_examples_apart(pools_file):
    events = mixed()
    own, half = (under("sasrec", rule, pools_file, events).events for rule in ("own_pool", "mix:0.5"))
    assert len({events.fingerprint, own.fingerprint, half.fingerprint}) == 3
    assert np.array_equal(own.where(np.arange(5)).examples, own.examples[:5])
    assert own.unweighted().strengths is not None


def test_nominators_that_follow_weights_have_the_setting_and_others_do_not():
    with_it = {name for name in TYPES if EXAMPLES.name in {one.name for one in train_settings(name)}}
    assert {
        "mf",
        "sasrec",
        "two-tower",
        "lightgcn",
        "din",
        "tree",
        "jtr",
        "ease",
        "popular",
        "co-visit",
    } <= with_it
    assert not with_it & {"recent", "repeat", "feature-ranker", "boosted-ranker", "seen", "diverse"}


@pytest.mark.parametrize(
    ("examples", "pools", "message"),
    [
        ("own_pol", "", r"r.toml: \[stages.it.train\]: examples: .*did you mean own_pool"),
        ("own_pool", "", "needs item pools, got none; set pools to a file"),
        ("mix:0.2", "", "needs item pools"),
        ("mix:2", "p", "expected beta from 0 to 1"),
        ("gate", "", "must be one of all, own_pool, own_pick, mix:BETA and ips:CLIP, got gate"),
        ("all", "p", 'pools is not read with examples = "all"'),
        (
            "own_pick",
            "",
            r"\[stages.it\]: examples = \"own_pick\" reads who nominated the items.*--from-log LOG",
        ),
        ("ips:5", "", r"train with --from-log LOG, or use own_pool"),
    ],
)
def test_rules_that_cannot_be_followed_are_refused_before_training(examples, pools, message):
    recipe = recipe_of("mf", examples, pools)
    with pytest.raises(ConfigError, match=message):
        check_examples(recipe, recipe.stages, None)


def test_setting_belongs_to_recipes_of_nominators():
    with pytest.raises(
        ConfigError, match="mf: examples belong to recipes; set `examples` of the events instead"
    ):
        make_trainer("mf", examples="own_pool")
    with pytest.raises(ConfigError, match="unknown key 'examples'"):
        trainer_of("feature-ranker", {"examples": "own_pool"}, "here")


def test_pool_without_events_is_refused(pools_file):
    events = log([12, 13, 14], n_items=N_ITEMS)
    with pytest.raises(DataError, match=r"\[stages.it\]: examples: none of 3 events is an example of 'it'"):
        under("mf", "own_pool", pools_file, events)


TWO = """
pipeline = "source % 5 + first % 5 + second % 5"
[stages.source]
type = "popular"
[stages.first]
type = "mf"
[stages.first.train]
examples = "own_pool"
pools = "source"
[stages.second]
type = "mf"
[stages.second.train]
examples = "own_pool"
pools = "source"
"""


class WithPools:
    pools = Pools(np.stack([OWN, ~OWN]))


def test_pools_of_a_stage_belong_to_the_stages_that_name_it_in_their_order():
    recipe, events = parse_recipe(TWO, "two.toml"), mixed()
    context: Any = replace(context_of(events), fitted={"source": WithPools()})
    first, second = (
        with_examples(context, recipe, name, trainer_of("mf", {}, "mf")).events
        for name in ("first", "second")
    )
    assert set(first.items) == set(range(10))
    assert set(second.items) == set(range(10, 20))
    with pytest.raises(ConfigError, match=r"'source' must stand before the stages that name it"):
        with_examples(context_of(events), recipe, "first", None)
    with pytest.raises(ConfigError, match=r"a stage with item pools, and 'source' has none"):
        with_examples(replace(context, fitted={"source": object()}), recipe, "first", None)
    three: Any = WithPools()
    three.pools = Pools.of([[0], [1], list(range(2, 20))])
    with pytest.raises(ConfigError, match=r"'source' has 3 pools and 2 stages name it"):
        with_examples(replace(context, fitted={"source": three}), recipe, "first", None)


RESTRICTED = """
pipeline = "source % 5 + factors % 5 + own % 5"
[stages.source]
type = "popular"
[stages.factors]
type = "mf"
[stages.factors.train]
examples = "own_pool"
pools = "{pools}"
[stages.own]
type = "in-pool"
by = "factors"
pools = "{pools}"
number = {number}
"""


def test_nominator_that_a_stage_restricts_to_a_pool_learns_from_that_pool(tmp_path):
    events, trainer = mixed(), trainer_of("mf", {}, "mf")
    context: Any = replace(context_of(events), fitted={"source": WithPools()})

    def items_under(pools: object, number: int) -> set[int]:
        recipe = parse_recipe(RESTRICTED.format(pools=pools, number=number), "r.toml")
        return set(with_examples(context, recipe, "factors", trainer).events.items)

    assert items_under("source", 1) == set(range(10, 20))
    path = tmp_path / "pools.jsonl"
    write_pools(path, Pools.of([[3, 4], list(range(20))]), ("own", "factors"), Vocabulary.of(list(range(20))))
    assert items_under(path, 0) == {3, 4}
    with pytest.raises(ConfigError, match=r"number: 'source' has 2 pools, got 2; count from 0"):
        items_under("source", 2)


def test_items_that_are_not_in_the_catalogue_are_noted(tmp_path):
    path = tmp_path / "pools.jsonl"
    path.write_text('{"nominator": "it", "items": [1, 2, 77]}\n', "utf-8")
    noted: dict[str, TrainingHistory] = {}
    context = replace(context_of(mixed()), note=noted.__setitem__)
    with_examples(context, recipe_of("popular", "own_pool", path), "it", trainer_of("popular", {}, "popular"))
    assert noted["it"].warnings == ("1 items of its pool are not in the catalogue",)
    noted.clear()
    made = with_examples(context, recipe_of("mf", "own_pool", path), "it", trainer_of("mf", {}, "mf"))
    made.note("it", TrainingHistory(3, 5, warnings=("own",)))
    assert noted["it"] == TrainingHistory(
        3, 5, warnings=("own", "1 items of its pool are not in the catalogue")
    )


def test_mean_of_weighted_losses_leaves_out_events_of_weight_0():
    losses, weights = torch.tensor([3.0, 5.0, 100.0]), torch.tensor([1.0, 2.0, 0.0])
    assert weighted_mean(losses, weights).item() == (3 + 10) / 2
    assert weighted_mean(losses, torch.zeros(3)).item() == 0
