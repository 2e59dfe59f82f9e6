"""Which events a nominator learns from: all, those of its pool, or those that it nominated.

The rule gives every event a weight as an example. A model with histories keeps an event of weight 0 as history; for any
other model the event is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from shortlist.data import Catalog
from shortlist.errors import ConfigError, DataError
from shortlist.metrics.off_policy import effective_size
from shortlist.nominate.pools import Bools, Pools
from shortlist.pipeline import Recipe
from shortlist.pipeline.about import TrainingHistory
from shortlist.settings import Setting
from shortlist.train.context import TrainContext
from shortlist.train.logged.picks import event_of, picks_of, positive_rows, with_picked_events
from shortlist.train.logged.training_log import TrainingLog
from shortlist.train.pools.weights import Nominations, WeightRule
from shortlist.train.preparation.pools_file import read_pool

EXAMPLES = Setting(
    "examples",
    str,
    "all",
    "Events that a nominator learns from: all, own_pool, own_pick, mix:BETA or ips:CLIP.",
)
POOLS = Setting(
    "pools",
    str,
    "",
    "Item pools for own_pool, mix and ips: a file with a line for each nominator, or a stage that has pools.",
)
IN_POOL = "in-pool"  # type of stages that restrict a nominator to a pool
BY_POOL = ("own_pool", "mix")
FROM_LOG = ("own_pick", "ips")
MIN_EFFECTIVE = 0.1  # share of effective examples below which importance weights are replaced
FALLBACK = WeightRule("mix", beta=0.3)

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class ExampleFacts:
    """What a training history says about the examples of a stage."""

    effective: float | None = None  # ips: the effective number of examples
    warnings: tuple[str, ...] = ()

    def added(self, history: TrainingHistory) -> TrainingHistory:
        return replace(
            history, effective_examples=self.effective, warnings=(*history.warnings, *self.warnings)
        )


def rule_of(recipe: Recipe, name: str) -> WeightRule:
    """The rule of a stage; an error names its place."""
    where = f"{recipe.path}: [stages.{name}.train]"
    train = recipe.stages[name].train
    try:
        rule = WeightRule.parse(str(train.get(EXAMPLES.name, EXAMPLES.default)))
    except ConfigError as error:
        raise ConfigError(f"{where}: {EXAMPLES.name}: {error}") from error
    if rule.kind == "gate":
        raise ConfigError(
            f"{where}: {EXAMPLES.name} must be one of all, own_pool, own_pick, mix:BETA and ips:CLIP, got gate; "
            "a gate belongs to a mixture of nominators, whose pools a nominator can learn from with own_pool"
        )
    given = bool(train.get(POOLS.name, POOLS.default))
    if rule.kind in BY_POOL and not given:
        raise ConfigError(
            f'{where}: {EXAMPLES.name} = "{rule.kind}" needs item pools, got none; set {POOLS.name} to a file with a '
            "line for each nominator, or to a stage that has pools"
        )
    if rule.kind in ("all", "own_pick") and given:
        raise ConfigError(
            f'{where}: {POOLS.name} is not read with {EXAMPLES.name} = "{rule.kind}"; leave it out'
        )
    return rule


def check_examples(recipe: Recipe, names: Mapping[str, object], log: TrainingLog | None) -> None:
    """Refuse rules that need what is not there, before anything is fitted."""
    for name in names:
        rule = rule_of(recipe, name)
        if rule.kind in FROM_LOG and (log is None or log.nominations is None):
            raise ConfigError(
                f'{recipe.where(name)}: {EXAMPLES.name} = "{rule.kind}" reads who nominated the items, which is in a '
                "full-stage log: train with --from-log LOG, or use own_pool"
            )


def check_pools(recipe: Recipe, name: str, catalog: Catalog) -> tuple[str, ...]:
    """Refuse pools that cannot be read; what is only doubtful comes back as sentences."""
    stage = recipe.stages[name]
    source = str(stage.train.get(POOLS.name, POOLS.default))
    if source and source not in recipe.stages:
        read_pool(Path(source), _inside(recipe, name, source) or name, catalog.vocabulary)
    return _check_in_pool(recipe, name, catalog) if stage.type == IN_POOL else ()


def _check_in_pool(recipe: Recipe, name: str, catalog: Catalog) -> tuple[str, ...]:
    """The same for the pool of a stage of type in-pool."""
    own = recipe.stages[name].settings
    source = str(own.get(POOLS.name, ""))
    if not source or source in recipe.stages:
        return ()
    try:
        unknown = read_pool(Path(source), name, catalog.vocabulary)[1]
    except (ConfigError, DataError) as error:
        raise type(error)(f"{recipe.where(name)}: {error}") from error
    if "number" in own:
        raise ConfigError(
            f"{recipe.where(name)}: number is of the pools of a stage, and {source} is a file, whose lines have names; "
            "leave number out"
        )
    return (f"{name}: {unknown} items of its pool in {source} are not in the catalogue",) if unknown else ()


def with_examples(context: TrainContext, recipe: Recipe, name: str, trainer: object) -> TrainContext:
    """What the trainer of a stage gets under its rule; an error names the stage."""
    rule = rule_of(recipe, name)
    if rule.kind == "all" or (rule.kind in FROM_LOG and context.log is None):
        return context  # nothing is known of who nominated the events before the first request of a log
    try:
        pool, unknown = _pool(context, recipe, name)
        if rule.kind in FROM_LOG:
            return _picked(context, recipe, name, trainer, rule, pool, unknown)
        assert pool is not None
        weights = _weights(rule, pool[context.events.items])
        logged = None if context.log is None else _weights(rule, pool[_items(context.log)])
        return _weighted(context, name, trainer, weights, logged, ExampleFacts(warnings=unknown))
    except (ConfigError, DataError) as error:
        raise type(error)(f"{recipe.where(name)}: {error}") from error


def _pool(context: TrainContext, recipe: Recipe, name: str) -> tuple[Bools | None, tuple[str, ...]]:
    """The items in the pool of a stage [N], None without pools; and what is wrong with it."""
    source = str(recipe.stages[name].train.get(POOLS.name, POOLS.default))
    if not source:
        return None, ()
    around = _inside(recipe, name, source)
    if source in recipe.stages:
        users = [one for one, stage in recipe.stages.items() if stage.train.get(POOLS.name) == source]
        if around is not None:
            return _row(context, source, int(recipe.stages[around].settings.get("number", 0))), ()
        return _row(context, source, users.index(name), len(users)), ()
    pool, unknown = read_pool(Path(source), around or name, context.catalog.vocabulary)
    return pool, (f"{unknown} items of its pool are not in the catalogue",) if unknown else ()


def _inside(recipe: Recipe, name: str, source: str | None = None) -> str | None:
    """The stage of type in-pool that restricts a nominator, to a pool of this file or stage if it is given."""
    for other, stage in recipe.stages.items():
        same = source is None or stage.settings.get(POOLS.name) == source
        if stage.type == IN_POOL and stage.settings.get("by") == name and same:
            return other
    return None


def _row(context: TrainContext, source: str, number: int, count: int | None = None) -> Bools:
    """A pool of a stage; without a stage in-pool, all `count` pools belong to the stages that name it in turn."""
    if source not in context.fitted:
        raise ConfigError(f"{POOLS.name}: {source!r} must stand before the stages that name it in the recipe")
    pools = getattr(context.fitted[source], "pools", None)
    if not isinstance(pools, Pools):
        raise ConfigError(
            f"{POOLS.name} must name a file or a stage with item pools, and {source!r} has none"
        )
    if count is None and number >= pools.n_nominators:
        raise ConfigError(f"number: {source!r} has {pools.n_nominators} pools, got {number}; count from 0")
    if count is not None and pools.n_nominators != count:
        raise ConfigError(
            f"{POOLS.name}: {source!r} has {pools.n_nominators} pools and {count} stages name it; each pool belongs to "
            "one stage, in the order of the recipe, or to one that a stage of type in-pool restricts to it"
        )
    pool: Bools = pools.matrix[number]
    return pool


def _picked(
    context: TrainContext,
    recipe: Recipe,
    name: str,
    trainer: object,
    rule: WeightRule,
    pool: Bools | None,
    notes: tuple[str, ...],
) -> TrainContext:
    """The examples that a log knows: the events of logged positives, by who nominated them."""
    log = context.log
    assert log is not None
    context = replace(context, events=with_picked_events(context.events, log))
    assert log.nominations is not None
    known = name in log.nominations.nominators
    picks = picks_of(log, name if known else _inside(recipe, name) or name)
    picked = picks.picked[:, 0]
    if not picked.any():
        raise DataError(
            f"{EXAMPLES.name}: no positive of the log was nominated by {name!r}; its nominators are "
            f"{', '.join(log.nominations.nominators)}"
        )
    if rule.kind == "ips" and np.isnan(picks.shown).any():
        raise ConfigError(
            f"{EXAMPLES.name}: ips needs the probabilities with which items were nominated and shown, and "
            f"{int(np.isnan(picks.shown).sum())} of {len(picks)} logged positives have none; serve with serving_noise "
            "on nominators and log new requests, or use own_pick"
        )
    own = picked if pool is None else pool[_items(log)]
    weights = _weights(rule, own, picked, picks.propensity[:, 0], picks.shown)
    facts = ExampleFacts(warnings=notes)
    if rule.kind == "ips":
        effective, count = effective_size(weights), int((weights > 0).sum())
        facts = replace(facts, effective=effective)
        if effective < MIN_EFFECTIVE * count:
            weights = _weights(FALLBACK, own)
            text = f"{effective:.1f} of {count} examples are effective with importance weights: trained with mix:0.3"
            facts = replace(facts, warnings=(*notes, text))
    events, at = np.zeros(len(context.events), np.float32), event_of(log, context.events)
    np.maximum.at(events, at[at >= 0], weights[at >= 0])
    return _weighted(context, name, trainer, events, weights, facts)


def _weights(
    rule: WeightRule,
    in_pool: Bools,
    picked: Bools | None = None,
    own: NDArray[np.float64] | None = None,
    shown: NDArray[np.float64] | None = None,
) -> Weights:
    """The weights of examples of one nominator [E]; `own` and `shown` are probabilities."""
    inside = torch.from_numpy(in_pool)[:, None]
    known = Nominations(
        inside,
        inside if picked is None else torch.from_numpy(picked)[:, None],
        None if own is None else torch.from_numpy(own)[:, None],
        None if shown is None else torch.from_numpy(shown),
    )
    weights: Weights = rule.weights(known)[:, 0].numpy().astype(np.float32)
    return weights


def _items(log: TrainingLog) -> NDArray[np.int64]:
    return np.asarray(log.log.item_id[positive_rows(log)], np.int64)


def _weighted(
    context: TrainContext,
    name: str,
    trainer: object,
    weights: Weights,
    logged: Weights | None,
    facts: ExampleFacts,
) -> TrainContext:
    """The context with these weights of events and of logged positives, and facts for the training history."""
    events, log = context.events, context.log
    if not (weights > 0).any():
        raise DataError(
            f"{EXAMPLES.name}: none of {len(events):,} events is an example of {name!r}; give it other pools, or "
            "train it on all"
        )
    if not (weights == 1).all():
        events = replace(events, examples=weights)
        events = events if getattr(trainer, "reads_histories", False) else events.where(weights > 0)
    if log is not None and logged is not None and not (logged == 1).all():
        log = with_strengths(log, logged)
    if facts == ExampleFacts():
        return replace(context, events=events, log=log)
    note = context.note
    if getattr(trainer, "counts_only", False):  # it records no history of its own
        note(name, facts.added(TrainingHistory(0, 0)))
    return replace(
        context,
        events=events,
        log=log,
        note=lambda one, history: note(one, facts.added(history) if one == name else history),
    )


def with_strengths(log: TrainingLog, weights: Weights) -> TrainingLog:
    """The log with weights of its positives [P]; those of weight 0 count as items without feedback."""
    rows, held = positive_rows(log), log.log
    y = np.array(held.y)
    y[rows[weights == 0]] = -1
    strength = np.ones(held.n_rows, np.float32)
    strength[rows] = weights / max(float(weights[weights > 0].mean()) if (weights > 0).any() else 1.0, 1e-12)
    equal = bool((weights[weights > 0] == weights.max()).all())
    return replace(log, log=replace(held, y=y, strength=None if equal else strength))
