import pytest
import torch

from shortlist.diagnose.tree.beam_losses import (
    SearchSettings,
    compare_searches,
    count_losses,
    lost_at,
    survival,
)
from shortlist.index.tree import delete
from tests.diagnose.tree.small_trees import max_heap_index
from tests.index.tree.tabular import no_histories, random_pairs, random_rows


def random_relevant(users, n, seed=0, size=4):
    generator = torch.Generator().manual_seed(seed)
    relevant = torch.stack([torch.randperm(n, generator=generator)[:size] for _ in range(users)])
    relevant[0, -1] = -1
    return relevant


def beam_by_hand(index, user, beam):
    """The nodes in the beam at every level, by sorting."""
    shape, table = index.tree.shape, index.scorer.table[user].tolist()
    kept, levels = [0], {0: [0]}
    for level in range(1, shape.height + 1):
        children = [c for node in kept for c in shape.children(level - 1, node)]
        live = [
            c for c in children if any(index.tree.item_of_leaf[leaf] >= 0 for leaf in shape.leaves(level, c))
        ]
        kept = sorted(sorted(live, key=lambda c, level=level: (-table[shape.offsets[level] + c], c))[:beam])
        levels[level] = kept
    return levels


@pytest.mark.parametrize(
    ("n", "branch", "beam", "spare"), [(23, 2, 3, 0), (40, 3, 4, 0.3), (9, 2, 50, 0), (1, 2, 1, 0)]
)
def test_an_item_survives_a_level_if_its_ancestor_is_in_the_beam(n, branch, beam, spare):
    index, k = random_rows(5, n, branch, seed=n, spare=spare), 3
    relevant = random_relevant(5, n, size=min(4, n))
    settings = SearchSettings(k, beam)
    found = settings.beam_search(index, no_histories(5))
    alive = survival(index, found, relevant)
    for user in range(5):
        levels = beam_by_hand(index, user, beam)
        for place, item in enumerate(relevant[user].tolist()):
            for level in range(index.tree.shape.height):
                leaf = int(index.tree.leaf_of_item[item]) if item >= 0 else -1
                expected = item >= 0 and leaf // index.tree.shape.width(level) in levels[level]
                assert bool(alive[user, place, level]) == expected
            assert bool(alive[user, place, -1]) == (item >= 0 and item in found.items[user].tolist())
    assert bool((alive[:, :, 1:] <= alive[:, :, :-1]).all())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("beam", "exclude_seen"), [(2, False), (3, True), (8, False)])
def test_i24_scorer_and_beam_losses_add_up_to_all_losses(seed, beam, exclude_seen):
    n, users = 40, 12
    index = delete(random_pairs(n, 2, seed), torch.tensor([5, 6]))
    generator = torch.Generator().manual_seed(seed)
    history = torch.stack([torch.randperm(n, generator=generator)[:3] for _ in range(users)])
    relevant = random_relevant(users, n, seed)
    compared = compare_searches(index, history, relevant, SearchSettings(6, beam, exclude_seen=exclude_seen))
    losses = count_losses(compared, relevant, index, history, exclude_seen)
    best = [set(row) - {-1} for row in compared.best.items.tolist()]
    found = [set(row) - {-1} for row in compared.found.items.tolist()]
    pairs = [(user, item) for user, row in enumerate(relevant.tolist()) for item in row if item >= 0]
    assert losses.relevant == len(pairs)
    assert losses.returned == sum(item in found[user] for user, item in pairs)
    assert losses.scorer == sum(item not in best[user] for user, item in pairs)
    assert losses.beam == sum(item in best[user] and item not in found[user] for user, item in pairs)
    assert losses.only_by_beam == sum(item not in best[user] and item in found[user] for user, item in pairs)
    assert losses.relevant - losses.returned == losses.scorer + losses.beam - losses.only_by_beam
    assert losses.absent == sum(item in (5, 6) for _, item in pairs)
    seen = [set(row) for row in history.tolist()]
    assert losses.seen == sum(
        exclude_seen and item in seen[user] and item not in (5, 6) for user, item in pairs
    )


@pytest.mark.parametrize("seed", range(5))
def test_i41_losses_by_level_add_up_to_the_regret(seed):
    index = random_rows(7, 50, 2, seed)
    compared = compare_searches(index, no_histories(7), random_relevant(7, 50), SearchSettings(5, 3))
    there = compared.best.items >= 0
    lost = lost_at(compared.top_alive, there)
    best, found = compared.best.items.tolist(), compared.found.items.tolist()
    missing = sum(len(set(a) - set(b)) for a, b in zip(best, found, strict=True))
    assert int(lost.sum()) == missing > 0
    assert int(lost[0]) == int(lost[-1]) == 0  # the root is always kept, and a scored leaf is not lost


def test_i41_with_max_heap_scores_a_beam_of_k_loses_nothing():
    index = max_heap_index(6, 60, 3, spare=0.2)
    compared = compare_searches(index, no_histories(6), random_relevant(6, 60), SearchSettings(4, 4))
    assert torch.equal(compared.best.items, compared.found.items)
    assert int(lost_at(compared.top_alive, compared.best.items >= 0).sum()) == 0
    assert count_losses(compared, random_relevant(6, 60), index, no_histories(6), False).beam == 0


def test_relevant_items_above_k_are_beyond_k():
    index = random_rows(2, 20)
    relevant = torch.tensor([[1, 2, 3, 4, 5], [6, -1, -1, -1, -1]])
    compared = compare_searches(index, no_histories(2), relevant, SearchSettings(2, 20))
    losses = count_losses(compared, relevant, index, no_histories(2), False)
    assert losses.beyond_k == 3
    assert losses.scorer >= losses.beyond_k
