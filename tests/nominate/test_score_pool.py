"""`score_pool`: a nominator scores the candidates of the whole pool, in batches, single requests and behind guards."""

from dataclasses import dataclass
from math import isnan

import pytest
import torch

from shortlist.data import Candidates, Query
from shortlist.errors import ConfigError, GrammarError
from shortlist.grammar import Nominator
from shortlist.models.collaborative.ease import EASE
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.nominate import CoVisit, ModelNominator, Popular, Recent
from shortlist.pipeline import parse_recipe, run
from shortlist.pipeline.explain import explain
from shortlist.pipeline.guards import Optional, Within
from shortlist.pipeline.placeholders import placeholder
from tests.worlds import N_ITEMS, covisit, listed, query_of, run_checked

HISTORIES = ([3, 4, 5, 4], [], [17, 39])
OTHERS = listed("others", [0, 9, 3, 17, 30], limit=5)


def sasrec() -> ModelNominator:
    torch.manual_seed(0)
    model = SASRec(SASRecConfig(N_ITEMS, max_history=5, width=8, blocks=1, heads=1)).eval()
    return ModelNominator(model, exclude_seen=True, score_pool=True, limit=6, name="model")


def ease() -> ModelNominator:
    model = EASE(EASE.Config(N_ITEMS))
    generator = torch.Generator().manual_seed(1)
    for weight in model.state_dict().values():
        weight.copy_(torch.randn(weight.shape, generator=generator))
    return ModelNominator(model.eval(), score_pool=True, limit=6, name="model")


def counts() -> list[Nominator]:
    order = torch.randperm(N_ITEMS, generator=torch.Generator().manual_seed(2))
    falling = torch.linspace(0.5, 0.01, N_ITEMS)
    return [
        covisit().renewed(score_pool=True, limit=6, name="model"),
        Popular(order, falling, score_pool=True, limit=6, name="model"),
        Recent(order, torch.arange(N_ITEMS).float(), score_pool=True, limit=6, name="model"),
    ]


def all_scores(nominator: Nominator, query: Query) -> torch.Tensor:
    """The scores of all items from a nominator without limit; NaN for items it does not nominate."""
    found = nominator.renewed(
        limit=N_ITEMS, **({"exclude_seen": False} if hasattr(nominator, "exclude_seen") else {})
    )
    nominated = found.nominate(query)
    whole = torch.full((len(query), N_ITEMS + 1), torch.nan)
    at = nominated.items.masked_fill(~nominated.valid, N_ITEMS)
    return whole.scatter(1, at, nominated.scores)[:, :-1]


@pytest.mark.parametrize("nominator", [sasrec(), ease(), *counts()], ids=lambda one: type(one).__name__)
def test_every_candidate_of_the_pool_has_the_score_it_would_be_nominated_with(nominator):
    query = query_of(*HISTORIES)
    pool = run_checked(nominator + OTHERS, query).trace.nominated
    expected = all_scores(nominator, query).gather(1, pool.items.clamp(min=0))
    if isinstance(nominator, CoVisit):
        expected = expected.nan_to_num(0.0)  # items without a similar item in the history have the sum 0
    got = pool.columns["model.score"]
    torch.testing.assert_close(got[pool.valid], expected[pool.valid])
    assert got[~pool.valid].isnan().all()


@pytest.mark.parametrize("nominator", [sasrec(), ease(), *counts()], ids=lambda one: type(one).__name__)
def test_scoring_the_pool_changes_neither_candidates_nor_ranks(nominator):
    query = query_of(*HISTORIES)
    scored = run(nominator + OTHERS, query).trace.nominated
    plain = run(nominator.renewed(score_pool=False) + OTHERS, query).trace.nominated
    assert torch.equal(scored.items, plain.items)
    assert torch.equal(scored.valid, plain.valid)
    assert torch.equal(scored.scores, plain.scores)
    nominated = ~plain.columns["model.rank"].isnan()
    torch.testing.assert_close(scored.columns["model.rank"], plain.columns["model.rank"], equal_nan=True)
    assert torch.equal(scored.columns["model.score"][nominated], plain.columns["model.score"][nominated])
    assert "model.z" not in plain.columns


def test_single_request_is_scored_as_in_a_batch():
    nominator = sasrec()
    batch = run(nominator + OTHERS, query_of(*HISTORIES)).trace.nominated
    for row, history in enumerate(HISTORIES):
        alone = run(nominator + OTHERS, query_of(history)).trace.nominated
        for what in ("score", "z", "last", "max", "mean"):
            torch.testing.assert_close(
                alone.columns[f"model.{what}"][0],
                batch.columns[f"model.{what}"][row],
                equal_nan=True,
                rtol=1e-4,
                atol=1e-5,
            )


def test_z_is_standardised_by_the_nominators_own_items():
    pool = run(ease() + OTHERS, query_of(*HISTORIES)).trace.nominated
    for row in range(len(HISTORIES)):
        nominated = ~pool.columns["model.rank"][row].isnan()
        own = pool.columns["model.score"][row][nominated]
        expected = (pool.columns["model.score"][row] - own.mean()) / own.std(correction=0)
        torch.testing.assert_close(pool.columns["model.z"][row], expected, equal_nan=True)


def test_z_depends_neither_on_other_nominators_nor_on_filters():
    query = query_of(*HISTORIES)
    alone = run(ease() + OTHERS, query).trace.nominated
    more = run(ease() + OTHERS + listed("more", [1, 2, 38], limit=3), query).trace.nominated
    width = alone.shape[1]
    torch.testing.assert_close(more.columns["model.z"][:, :width], alone.columns["model.z"], equal_nan=True)


def test_history_columns_are_cosines_with_the_last_the_nearest_and_all_items():
    nominator = sasrec()
    query = query_of(*HISTORIES)
    pool = run(nominator + OTHERS, query).trace.nominated
    vectors = torch.nn.functional.normalize(nominator.model.vectors(), dim=1).detach()
    for row, history in enumerate(HISTORIES):
        for place in pool.valid[row].nonzero().flatten().tolist():
            cosines = [float(vectors[pool.items[row, place]] @ vectors[item]) for item in history]
            for what, value in (("last", lambda c: c[-1]), ("max", max), ("mean", lambda c: sum(c) / len(c))):
                got = float(pool.columns[f"model.{what}"][row, place])
                assert isnan(got) if not history else got == pytest.approx(value(cosines), abs=1e-5)


def test_model_runs_once_per_request(monkeypatch):
    nominator, calls = sasrec(), []
    real = type(nominator.model).users
    monkeypatch.setattr(type(nominator.model), "users", lambda *given: calls.append(1) or real(*given))
    run(nominator + OTHERS, query_of(*HISTORIES))
    assert len(calls) == 1
    assert not nominator._answers


def test_explanation_names_only_nominators_that_nominated_the_item():
    slate = run(sasrec() + OTHERS, query_of([3]))
    only_others = next(
        int(slate.trace.nominated.items[0, at])
        for at in slate.trace.nominated.valid[0].nonzero().flatten()
        if slate.trace.nominated.columns["model.rank"][0, at].isnan()
    )
    assert [one.nominator for one in explain(slate.trace, only_others).nominations] == ["others"]


@dataclass(frozen=True, eq=False, repr=False)
class Failing(Nominator):
    """Nominates one item and fails to score."""

    fails: bool = False

    def nominate(self, query: Query) -> Candidates:
        if self.fails:
            raise RuntimeError("no nomination")
        return Candidates.of(torch.zeros(len(query), 1, dtype=torch.int64), torch.ones(len(query), 1))

    def item_columns(self, query: Query, items: torch.Tensor) -> dict[str, torch.Tensor]:
        assert not self.fails, "a nominator that failed is not asked for scores"
        raise RuntimeError("no score")


def test_optional_nominator_that_fails_to_score_keeps_its_nominations():
    part = Optional(Failing(score_pool=True, name="model"))
    slate = run_checked(part + OTHERS, query_of([1]))
    assert [note.stage for note in slate.trace.degraded] == ["model"]
    scored = ~slate.trace.nominated.columns["model.score"][0].isnan()
    assert slate.trace.nominated.items[0, scored].tolist() == [0]  # the one that it nominated


def test_error_in_scoring_the_pool_is_not_hidden():
    with pytest.raises(RuntimeError, match="no score"):
        run(Failing(score_pool=True, name="model") + OTHERS, query_of([1]))


def test_nominator_that_was_skipped_does_not_score_the_pool():
    slate = run_checked(Optional(Failing(True, score_pool=True, name="model")) + OTHERS, query_of([1]))
    assert len(slate.trace.degraded) == 1
    assert slate.trace.nominated.columns["model.score"].isnan().all()


def test_guarded_nominator_scores_the_pool():
    query = query_of(*HISTORIES)
    plain = run(sasrec() + OTHERS, query).trace.nominated
    guarded = run(Within(sasrec(), ms=60_000) + OTHERS, query).trace.nominated
    torch.testing.assert_close(guarded.columns["model.z"], plain.columns["model.z"], equal_nan=True)


def test_type_that_cannot_score_refuses_the_setting():
    assert "score_pool" not in {one.name for one in type(OTHERS).declared()}
    with pytest.raises(GrammarError, match="remove score_pool"):
        listed("others", [0]).renewed(score_pool=True)
    with pytest.raises(ConfigError, match="score_pool"):
        parse_recipe(
            'name = "a"\npipeline = "tree % 5"\n[stages.tree]\ntype = "tree"\nscore_pool = true\n', "a.toml"
        )
    assert placeholder(Popular, "popular").title == "popular"
