"""Who nominated logged positives, the events they became, and training on own nominations."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Interactions
from shortlist.errors import ConfigError, DataError
from shortlist.feedback import LogReader, read_nominations
from shortlist.grammar import leaves
from shortlist.metrics.nomination.coverage import ABSENT
from shortlist.pipeline import parse_recipe
from shortlist.pipeline.about import TrainingHistory
from shortlist.train import train
from shortlist.train.context import TrainContext
from shortlist.train.logged.picks import event_of, picks_of, positive_rows, with_picked_events
from shortlist.train.logged.read_log import read_training_log
from shortlist.train.pipeline import train_pipeline
from shortlist.train.preparation.examples import with_examples
from shortlist.train.registry import trainer_of
from tests.train.logged.served import serve

STAGES = ("pool", "seen", "rank")
RECIPE = """
pipeline = "factors % 30 + towers % 30 >> seen >> rank % 8"
[stages.factors]
type = "mf"
serving_noise = {noise}
[stages.factors.train]
epochs = 2
width = 8
{factors}
[stages.towers]
type = "two-tower"
serving_noise = {noise}
[stages.towers.train]
epochs = 1
width = 8
{towers}
[stages.seen]
type = "seen"
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
epochs = 1
hidden = [8]
"""


def recipe_of(noise: float = 0.3, factors: str = "", towers: str = ""):
    return parse_recipe(RECIPE.format(noise=noise, factors=factors, towers=towers), "two.toml")


def rule(text: str) -> str:
    return f'examples = "{text}"'


@pytest.fixture(scope="module")
def folder(world, tmp_path_factory):
    served = train_pipeline(recipe_of(), world).recommender
    return serve(tmp_path_factory.mktemp("picks") / "log", world, served.pipeline)


@pytest.fixture(scope="module")
def log(world, folder):
    return read_training_log(folder, world, STAGES, 1000)


@pytest.fixture(scope="module")
def later(world, log):
    """The events of the world, and a later one for each logged positive."""
    rows = positive_rows(log)
    request = log.log.request[rows]
    events = world.events
    return Interactions.of(
        np.concatenate([events.users, log.log.user_id[request]]),
        np.concatenate([events.items, log.log.item_id[rows]]),
        np.concatenate([events.times, log.time[request] + 500]),
        n_users=events.n_users,
        n_items=events.n_items,
    )


def under(world, log, events, text: str, name: str = "factors", noted=None):
    recipe = recipe_of(factors=rule(text), towers=rule(text))
    note = {} if noted is None else {"note": noted.__setitem__}
    context = TrainContext(events, world.catalog, log=log, **note)
    trainer = trainer_of(recipe.stages[name].type, {}, name)
    return with_examples(context, recipe, name, trainer)


def test_log_tells_who_nominated_a_positive_and_at_which_rank(world, folder, log):
    found = read_nominations(LogReader(folder))
    assert found.nominators == ("factors", "towers")
    assert len(found) == len(positive_rows(log))
    assert found.picked.any(1).all()  # a served item has a nominator
    assert (found.rank[~found.picked] == ABSENT).all()
    assert found.rank[found.picked].max() < 30
    assert np.array_equal(found.best, found.rank.min(1))
    assert ((found.propensity > 0) == found.picked).all()
    assert ((found.shown > 0) & (found.shown <= 1)).all()
    alone = found.picked.sum(1) == 1
    assert np.allclose(found.shown[alone], found.propensity[alone].sum(1))
    together = 1 - np.prod(1 - found.propensity, axis=1)
    assert np.allclose(found.shown, together, atol=1e-5)


def test_picks_are_in_the_order_of_the_positives(world, log):
    picks, rows = picks_of(log, "factors"), positive_rows(log)
    assert np.array_equal(picks.item_id, log.log.item_id[rows])
    assert np.array_equal(picks.ts_ms, log.time[log.log.request[rows]])
    some = log.take(np.arange(3, 40))
    assert np.array_equal(picks_of(some, "towers").item_id, some.log.item_id[positive_rows(some)])
    assert not picks_of(log, "unheard").picked.any()


def test_positive_belongs_to_the_first_event_of_the_pair_from_the_request_on(world, log, later):
    at, rows = event_of(log, later), positive_rows(log)
    request = log.log.request[rows]
    users, items, times = log.log.user_id[request], log.log.item_id[rows], log.time[request]
    for number in range(0, len(rows), 7):
        same = (
            (later.users == users[number]) & (later.items == items[number]) & (later.times >= times[number])
        )
        assert at[number] == np.flatnonzero(same)[0]
    assert (event_of(log, world.events) == -1).all()  # all of them are older


def test_own_pick_trains_on_the_events_that_the_nominator_nominated(world, log, later):
    picked = picks_of(log, "towers").picked[:, 0]
    assert 0 < picked.mean() < 1
    made = under(world, log, later, "own_pick", "towers")
    expected = np.zeros(len(later), np.float32)
    expected[event_of(log, later)[picked]] = 1
    assert np.array_equal(made.events.examples, expected)
    left = positive_rows(made.log)
    assert np.array_equal(left, positive_rows(log)[picked])
    assert made.log.log.strength is None
    factors = under(world, log, later, "own_pick").events  # no histories: other events are left out
    assert len(factors) == picks_of(log, "factors").picked.sum()


def test_importance_weights_are_the_ratio_of_logged_probabilities(world, log, later):
    noted: dict[str, TrainingHistory] = {}
    made = under(world, log, later, "ips:1.5", "towers", noted)
    picks = picks_of(log, "towers")
    weights = np.minimum(picks.propensity[:, 0] / picks.shown, 1.5).astype(np.float32)
    assert np.allclose(made.events.examples[event_of(log, later)], weights)
    made.note("towers", TrainingHistory(1, 1))
    ess = weights.sum() ** 2 / (weights**2).sum()
    assert noted["towers"].effective_examples == pytest.approx(ess, rel=1e-5)
    assert noted["towers"].warnings == ()
    strength = made.log.log.strength[positive_rows(made.log)]
    assert np.allclose(strength, weights[weights > 0] / weights[weights > 0].mean())


def skewed(log, least: float):
    """The same log; one nomination in a hundred was unlikely to be shown."""
    known = log.nominations
    shown = np.ones(len(known))
    shown[0] = least
    column = np.ones_like(known.propensity)
    return replace(
        log, nominations=replace(known, shown=shown, propensity=column, picked=np.ones_like(known.picked))
    )


def test_few_effective_examples_fall_back_to_a_mix_with_a_warning(world, log, later):
    noted: dict[str, TrainingHistory] = {}
    made = under(world, skewed(log, 1e-7), later, "ips:1e9", "towers", noted)
    made.note("towers", TrainingHistory(1, 1))
    count = len(positive_rows(log))
    assert noted["towers"].effective_examples == pytest.approx(1, abs=0.01)
    assert noted["towers"].warnings == (
        f"1.0 of {count} examples are effective with importance weights: trained with mix:0.3",
    )
    assert set(made.events.examples) == {0, 1}


def test_importance_weights_need_propensities_in_the_log(world, log, later):
    known = log.nominations
    unknown = replace(log, nominations=replace(known, shown=np.full(len(known), np.nan)))
    with pytest.raises(
        ConfigError, match=r"\[stages.towers\]: examples: ips needs .* serve with serving_noise"
    ):
        under(world, unknown, later, "ips:10", "towers")
    never = replace(log, nominations=replace(known, shown=np.zeros(len(known))))
    with pytest.raises(ConfigError, match="a probability above 0 for every shown item, got 0"):
        under(world, never, later, "ips:10", "towers")


def test_nominator_that_nominated_no_positive_is_refused(world, log, later):
    nobody = replace(log.nominations, picked=np.zeros_like(log.nominations.picked))
    with pytest.raises(
        DataError, match=r"no positive of the log was nominated by 'towers'; .* factors, towers"
    ):
        under(world, replace(log, nominations=nobody), later, "own_pick", "towers")


def test_pipeline_is_trained_on_own_picks_and_on_importance_weights(world, log):
    tensors = {}
    for text in ("own_pick", "ips:10"):
        made = train_pipeline(recipe_of(factors=rule(text), towers=rule(text)), world, log=log).recommender
        tensors[text] = {part.title: part.tensors() for part in leaves(made.pipeline.stages[0])}
        effective = made.about.training["towers"].effective_examples
        assert (effective is None) == (text == "own_pick")
    first, second = (one["towers"] for one in tensors.values())
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_logged_positive_without_an_event_becomes_one(world, log, later):
    made = with_picked_events(world.events, log)
    rows = positive_rows(log)
    pairs = set(
        zip(log.log.user_id[log.log.request[rows]].tolist(), log.log.item_id[rows].tolist(), strict=True)
    )
    assert len(made) == len(world.events) + len(pairs)
    assert (event_of(log, made) >= 0).all()
    assert with_picked_events(later, log) is later


def test_rule_that_reads_a_log_is_refused_without_one(world):
    with pytest.raises(ConfigError, match=r"two.toml:.*\[stages.towers\].*train with --from-log LOG"):
        train(recipe_of(towers=rule("own_pick")), world)
