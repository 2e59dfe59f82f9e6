"""Systems with the same number of nominators on a CPU: seeds side by side on threads, rounds in compiled code."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from shortlist.simulate.bandit.cpu_kernel import play
from shortlist.simulate.bandit.draws import TIES, Normals
from shortlist.simulate.bandit.played import Played
from shortlist.simulate.bandit.ridge import refreshed_every
from shortlist.simulate.bandit.setup import GroupSetup
from shortlist.simulate.bandit.systems import BanditSettings
from shortlist.simulate.bandit.worlds import Rounds


class CompiledGroup:
    """The same systems as a `Group`, without exploration by epsilon and without importance weights.

    Only the coefficients of a nominator's own features are kept: m of them, and m x m of sigma.
    """

    def __init__(self, setup: GroupSetup, settings: BanditSettings) -> None:
        n_seeds, (q, s, n, width) = len(setup.seeds), setup.masks.shape
        real = np.float32 if settings.dtype == torch.float32 else np.float64
        masks = setup.masks.transpose(1, 0, 2, 3)  # [S, Q, N, D]
        # Features in ascending order, as a ranker has them: a score with all features has the same bits.
        self.features = np.argsort(~masks, axis=-1, kind="stable")
        self.counts = masks.sum(-1)
        self.theta = np.zeros((s, q, n, width), real)
        self.sigma = np.zeros((s, q, n, width * width), real)
        for at in np.ndindex(s, q, n):
            self.sigma[at][: self.counts[at] ** 2 : self.counts[at] + 1] = 1 / settings.penalty
        self.bound = np.full((s, q, n), 1 / settings.penalty, real)
        rankers = 0 if setup.single else q
        self.ranker_theta = np.zeros((s, rankers, width), real)
        self.ranker_sigma = np.zeros((s, rankers, width * width), real)
        self.ranker_sigma[..., :: width + 1] = 1 / settings.penalty
        self.ranker_bound = np.full((s, rankers), 1 / settings.penalty, real)
        self.policy = _policy(setup, settings)
        self.arms, self.in_pool, self.sizes = setup.arms, setup.in_pool, setup.valid.sum(-1)
        random = settings.tie == "random"
        self._keys = Normals(setup.seeds, TIES, (2, setup.n_arms), dtype=settings.dtype) if random else None
        self._n_seeds, self._systems = n_seeds, q

    def play(self, rounds: Rounds) -> Played:
        """Plays a block of rounds and learns from their rewards."""
        shape = (self._n_seeds, len(rounds), self._systems)
        action, best = np.empty(shape, np.int64), np.empty(shape, np.int64)
        none = np.empty((self._n_seeds, 0, 2, 0), self.theta.dtype)
        keys = none if self._keys is None else self._keys.next(len(rounds), exactly=True).numpy()
        contexts, means, rewards = (one.numpy() for one in (rounds.contexts, rounds.means, rounds.rewards))

        def one(s: int) -> None:
            play(
                contexts[s], means[s], rewards[s], keys[s], self.arms[s], self.sizes[s], self.in_pool[s],
                self.features[s], self.counts[s], self.policy, self.theta[s], self.sigma[s], self.bound[s],
                self.ranker_theta[s], self.ranker_sigma[s], self.ranker_bound[s], action[s], best[s],
            )  # fmt: skip

        with ThreadPoolExecutor(max(1, min(self._n_seeds, torch.get_num_threads()))) as pool:
            list(pool.map(one, range(self._n_seeds)))
        return Played(torch.from_numpy(action), torch.from_numpy(best))


def can_compile(settings: BanditSettings) -> bool:
    """Whether compiled code plays these settings."""
    on_cpu = torch.device(settings.device).type == "cpu"
    explores = settings.epsilon > 0 or settings.rule.needs_propensities
    return on_cpu and not explores and not refreshed_every(settings.penalty, settings.dtype)


def _policy(setup: GroupSetup, settings: BanditSettings) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Exploration, oracle and weights of each system, as the compiled code reads them."""
    nominators, rankers = setup.alphas(settings)
    outside = {"all": 1.0, "mix": settings.rule.beta}.get(settings.rule.kind, 0.0)
    own_pick = settings.rule.kind == "own_pick"
    rows = [
        nominators,
        rankers,
        setup.oracle,
        np.full(len(rankers), outside),
        np.full(len(rankers), own_pick),
    ]
    return np.stack(rows, axis=1).astype(np.float64)
