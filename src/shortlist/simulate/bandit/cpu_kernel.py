"""Rounds of a two-stage bandit on a CPU: all systems of a seed, one after the other, with state in the caches.

Every sum runs over features in ascending order, with arms or rows of sigma on the lanes of the vector unit, so a score
has the same bits wherever it is computed. Coefficients are packed: a nominator with m features keeps m of them, and
m x m of sigma.
Arms whose score cannot reach the best are not scored: a bonus is at most alpha |x| sqrt(|sigma|), with the norm of
sigma at the start or its Frobenius norm now; every example makes sigma smaller.
"""

from typing import Any

import numpy as np
from numba import njit

CLOSE = 1e-12  # scores this close to the highest are ties
SLACK = 1.001  # on the bound of a bonus, for rounding


def compiled(function: Any) -> Any:
    return njit(cache=True, nogil=True, error_model="numpy")(function)


@compiled
def inner_products(contexts, theta, out):  # type: ignore[no-untyped-def]
    """Inner products [R, A] of contexts [R, A, D] and theta [D], summed in the order of the features."""
    rounds, arms, width = contexts.shape
    for r in range(rounds):
        for a in range(arms):
            total = contexts[r, a, 0] * theta[0]
            for j in range(1, width):
                total += contexts[r, a, j] * theta[j]
            out[r, a] = total


@compiled
def play(  # type: ignore[no-untyped-def]
    contexts, means, rewards, keys, arms, sizes, in_pool, features, counts, policy,
    theta, sigma, bound, ranker_theta, ranker_sigma, ranker_bound, action, best,
):  # fmt: skip
    """Plays R rounds of one seed and learns: contexts [R, A, D], actions and best candidates [R, Q].

    `policy` [Q, 5] holds the exploration of the nominators and of the ranker, whether it is an oracle, the weight of an
    example outside the pool, and whether a nominator learns from its own picks only.
    Nominators have `arms` [N, P] of which `sizes` [N] are used, and `features` [Q, N, D] of which `counts` are used.
    Without a ranker (`ranker_theta` is empty) the only nominator decides.
    """
    rounds, _, width = contexts.shape
    (n_nominators, pool), systems = arms.shape, len(policy)
    two_stage, random_ties = ranker_theta.size > 0, keys.size > 0
    every, z, u = np.arange(width), np.empty(width, contexts.dtype), np.empty(width, contexts.dtype)
    pooled = np.empty((n_nominators, width, pool), contexts.dtype)
    chosen = np.empty((width, n_nominators), contexts.dtype)
    largest = max(pool, n_nominators)
    scores, norms = np.empty(largest, contexts.dtype), np.empty(largest, contexts.dtype)
    found = np.empty(n_nominators, np.int64)
    for r in range(rounds):
        x, mean = contexts[r], means[r]
        _by_pool(x, arms, sizes, pooled)
        for q in range(systems):
            for n in range(n_nominators):
                size = sizes[n]
                _score(
                    pooled[n], size, features[q, n], counts[q, n], theta[q, n], sigma[q, n],
                    policy[q, 0], bound[q, n], scores, norms,
                )  # fmt: skip
                place = _highest(
                    scores[:size], arms[n, :size], keys[r, 0] if random_ties else mean, random_ties
                )
                found[n] = arms[n, place]
            at = 0
            if two_stage:
                for n in range(n_nominators):
                    scores[n] = mean[found[n]]
                    for j in range(width):
                        chosen[j, n] = x[found[n], j]
                if not policy[q, 2] > 0:
                    _score(
                        chosen, n_nominators, every, width, ranker_theta[q], ranker_sigma[q],
                        policy[q, 1], ranker_bound[q], scores, norms,
                    )  # fmt: skip
                own = keys[r, 1] if random_ties else mean
                at = _highest(scores[:n_nominators], found, own, random_ties)
            arm, reward = found[at], rewards[r, found[at]]
            action[r, q], best[r, q] = arm, _best(found, mean)
            for n in range(n_nominators):
                weight = policy[q, 3] if not in_pool[n, arm] else 1.0
                if policy[q, 4] > 0:
                    weight = 1.0 if found[n] == arm else 0.0
                if weight > 0:
                    m = counts[q, n]
                    for j in range(m):
                        z[j] = x[arm, features[q, n, j]]
                    norm = _learn(z[:m], reward, weight, theta[q, n], sigma[q, n], u)
                    bound[q, n] = min(bound[q, n], norm)
            if two_stage:
                z[:] = x[arm]
                norm = _learn(z, reward, 1.0, ranker_theta[q], ranker_sigma[q], u)
                ranker_bound[q] = min(ranker_bound[q], norm)


@compiled
def _by_pool(x, arms, sizes, pooled):  # type: ignore[no-untyped-def]
    """Features of the arms of each pool, a row for each feature."""
    for n in range(len(arms)):
        for p in range(sizes[n]):
            row = x[arms[n, p]]
            for j in range(len(row)):
                pooled[n, j, p] = row[j]


@compiled
def _best(found, mean):  # type: ignore[no-untyped-def]
    """The first of the candidates with the highest expected reward."""
    top = found[0]
    for n in range(1, len(found)):
        if mean[found[n]] > mean[top]:
            top = found[n]
    return top


@compiled
def _highest(scores, arms, keys, random_ties):  # type: ignore[no-untyped-def]
    """The place of the highest score; of equal ones that of the lowest arm, or of the highest key."""
    top = scores.max()
    tolerance = CLOSE * max(abs(top), 1.0) if random_ties else 0.0
    at = -1
    for p in range(len(scores)):
        if scores[p] >= top - tolerance:
            if at < 0:
                at = p
            elif random_ties:
                if keys[arms[p]] > keys[arms[at]]:
                    at = p
            elif arms[p] < arms[at]:
                at = p
    return at


@compiled
def _score(rows, size, features, m, theta, sigma, alpha, bound, scores, norms):  # type: ignore[no-untyped-def]
    """Scores of `size` arms with features `rows` [D, P]; minus infinity for an arm that cannot be the best."""
    scores[:size] = 0
    for j in range(m):
        coefficient, row = theta[j], rows[features[j]]
        for p in range(size):
            scores[p] += coefficient * row[p]
    if alpha == 0:
        return
    bonus = norms[:size]
    bonus[:] = 0
    for j in range(m):
        row = rows[features[j]]
        for p in range(size):
            bonus[p] += row[p] * row[p]
    limit = SLACK * alpha * np.sqrt(bound)
    most = 0
    for p in range(size):
        bonus[p] = scores[p] + limit * np.sqrt(bonus[p])
        if bonus[p] > bonus[most]:
            most = p
    x, u, factor = np.empty(m, rows.dtype), np.empty(m, rows.dtype), rows.dtype.type(alpha)
    scores[most] += factor * _spread(rows, most, features, m, sigma, x, u)
    reached = scores[most]
    for p in range(size):
        if p != most:
            if bonus[p] < reached:
                scores[p] = -np.inf
            else:
                scores[p] += factor * _spread(rows, p, features, m, sigma, x, u)
                reached = max(reached, scores[p])


@compiled
def _spread(rows, p, features, m, sigma, x, u):  # type: ignore[no-untyped-def]
    """The square root of x sigma x for arm p."""
    for j in range(m):
        x[j] = rows[features[j], p]
    _times(sigma, x, m, u)
    total = u[0] * x[0]
    for j in range(1, m):
        total += u[j] * x[j]
    return np.sqrt(max(total, 0))


@compiled
def _times(sigma, x, m, u):  # type: ignore[no-untyped-def]
    """Writes sigma x to u; sigma is symmetric, so its rows are added up."""
    u[:m] = 0
    j = 0
    while j + 4 <= m:
        a, b, c, d = x[j], x[j + 1], x[j + 2], x[j + 3]
        one, two = sigma[j * m : (j + 1) * m], sigma[(j + 1) * m : (j + 2) * m]
        three, four = sigma[(j + 2) * m : (j + 3) * m], sigma[(j + 3) * m : (j + 4) * m]
        for i in range(m):
            u[i] = (((u[i] + a * one[i]) + b * two[i]) + c * three[i]) + d * four[i]
        j += 4
    while j < m:
        a, own = x[j], sigma[j * m : (j + 1) * m]
        for i in range(m):
            u[i] += a * own[i]
        j += 1


@compiled
def _learn(x, reward, weight, theta, sigma, u):  # type: ignore[no-untyped-def]
    """Recursive least squares with one example; returns the Frobenius norm of sigma."""
    m = len(x)
    _times(sigma, x, m, u)
    quadratic, predicted = x[0] * u[0], x[0] * theta[0]
    for j in range(1, m):
        quadratic += x[j] * u[j]
        predicted += x[j] * theta[j]
    factor = weight / (1 + weight * max(quadratic, 0))
    step = factor * (reward - predicted)
    root = np.sqrt(factor)
    for j in range(m):
        theta[j] += u[j] * step
        u[j] *= root
    squares = np.zeros(m, x.dtype)
    for j in range(m):
        own, a = sigma[j * m : (j + 1) * m], u[j]
        for i in range(m):
            own[i] -= a * u[i]
            squares[i] += own[i] * own[i]
    return np.sqrt(squares.sum())
