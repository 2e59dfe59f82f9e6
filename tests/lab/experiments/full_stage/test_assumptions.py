import numpy as np
import pytest

from shortlist.lab.experiments.full_stage.assumptions import _claims, fsltr_assumptions
from shortlist.lab.experiments.full_stage.logged_requests import LOGGING, logged_rows
from shortlist.lab.experiments.full_stage.sizes import SIZES
from tests.lab.experiments.results import check_result

SIZE = SIZES["tiny"]


@pytest.fixture(scope="module")
def quick():
    return fsltr_assumptions(None, "quick", (0, 1))


def value(result, where, metric):
    return next(row.mean for row in result.rows if row.method.startswith(where) and row.metric == metric)


@pytest.mark.parametrize("logging", LOGGING)
def test_logged_requests_have_the_capacities_of_the_funnel(grids, logging) -> None:
    rows = logged_rows(grids, SIZE, logging, 30, 5)
    assert grids.in_pool[rows.user, rows.item].all()
    for stage, capacity in enumerate(SIZE.wide, start=1):
        counts = np.bincount(rows.request[rows.reached >= stage], minlength=30)
        sizes = grids.in_pool.sum(1)[[rows.user[rows.request == one][0] for one in range(30)]]
        assert np.array_equal(counts, np.minimum(capacity, sizes))


def test_items_of_later_stages_have_higher_stage_scores(grids) -> None:
    rows = logged_rows(grids, SIZE, "uniform", 30, 5)
    for request in range(30):
        own = rows.request == request
        score = grids.prerank[rows.user[own], rows.item[own]]
        kept = rows.reached[own] >= 2
        assert score[kept].min() >= score[~kept].max()


def test_biased_retrieval_returns_items_of_higher_utility(grids) -> None:
    means = {}
    for logging in LOGGING:
        rows = logged_rows(grids, SIZE, logging, 60, 5)
        means[logging] = grids.utility[rows.user, rows.item].mean()
    assert means["interest"] > means["uniform"]


def test_a_stage_that_cuts_by_rank_depends_on_the_set(quick) -> None:
    check_result(quick, "fsltr-assumptions")
    assert quick.skipped == {}
    assert value(quick, "rank, scores on tiny/uniform", "set gap") > 0.02
    assert value(quick, "pre-rank, scores on tiny/uniform", "UAUC") > 0.95
    assert value(quick, "theorem 1 on tiny/uniform", "labels agree, S 1 and 3") > 0.9


def test_claims_compare_the_interval_over_seeds_with_the_limit() -> None:
    high, low = _claims({("x", "AUC"): [0.9, 0.91, 0.92], ("y", "set gap"): [0.0, 0.001, 0.1]})
    assert high.holds
    assert not low.holds
    assert _claims({("x", "AUC"): [0.9]}) == []
