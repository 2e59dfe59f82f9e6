import numpy as np
import pytest

from shortlist.index.tree.assign import balanced_assign
from shortlist.train.tree.updates.assignment import STRATEGIES, AssignmentProblem


def problem_of(seed=0, groups=6, width=4, capacity=5):
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(groups), width * capacity)
    counts = np.ceil(random.pareto(1.0, len(group)) * 3).astype(int) - (random.random(len(group)) < 0.1)
    values = (random.normal(size=(len(group), width)) * counts[:, None]).astype(np.float32)
    current = np.concatenate(
        [random.permutation(np.repeat(np.arange(width), capacity)) for _ in range(groups)]
    )
    return AssignmentProblem(values, np.full((groups, width), capacity), group, counts), current


@pytest.mark.parametrize("seed", range(5))
def test_every_strategy_respects_capacities_and_best_takes_the_better_per_group(seed):
    problem, current = problem_of(seed)
    found = {strategy: problem.solve(strategy, current) for strategy in STRATEGIES}
    for chosen, _ in found.values():
        assert (np.bincount(problem.group * 4 + chosen) == 5).all()
    totals = {strategy: problem.totals(chosen, problem.values) for strategy, (chosen, _) in found.items()}
    assert (totals["best"] >= np.maximum(totals["swap"], totals["assign"])).all()
    assert (totals["swap"] >= totals["keep"]).all()
    assert found["best"][1] == (totals["best"] > totals["swap"]).sum()


def test_keep_changes_nothing_and_assign_is_deferred_acceptance():
    problem, current = problem_of()
    assert problem.solve("keep", current)[0] is current
    assigned = balanced_assign(
        problem.values, problem.capacity, problem.counts, problem.group, problem.counts > 0
    )
    np.testing.assert_array_equal(problem.solve("assign", current)[0], assigned)
