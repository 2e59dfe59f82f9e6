import pytest
import torch

from shortlist.diagnose.tree.beam_losses import SearchSettings, account, compare, lost_at, survival
from shortlist.index.tree import delete
from tests.diagnose.tree.small_trees import perfect_heap
from tests.index.tree.tabular import nobody, random_pairs, random_rows


def random_truth(users, n, seed=0, size=4):
    generator = torch.Generator().manual_seed(seed)
    truth = torch.stack([torch.randperm(n, generator=generator)[:size] for _ in range(users)])
    truth[0, -1] = -1
    return truth


def walk_by_hand(index, user, beam):
    """The nodes kept on every level by sorting."""
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
def test_an_item_survives_a_level_when_its_ancestor_is_kept(n, branch, beam, spare):
    index, k = random_rows(5, n, branch, seed=n, spare=spare), 3
    truth = random_truth(5, n, size=min(4, n))
    asked = SearchSettings(k, beam)
    found = asked.beam_search(index, nobody(5))
    alive = survival(index, found, truth)
    for user in range(5):
        levels = walk_by_hand(index, user, beam)
        for place, item in enumerate(truth[user].tolist()):
            for level in range(index.tree.shape.height):
                leaf = int(index.tree.leaf_of_item[item]) if item >= 0 else -1
                expected = item >= 0 and leaf // index.tree.shape.width(level) in levels[level]
                assert bool(alive[user, place, level]) == expected
            assert bool(alive[user, place, -1]) == (item >= 0 and item in found.items[user].tolist())
    assert bool((alive[:, :, 1:] <= alive[:, :, :-1]).all())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("beam", "exclude_seen"), [(2, False), (3, True), (8, False)])
def test_i24_search_and_model_explain_every_miss_in_whole_numbers(seed, beam, exclude_seen):
    n, users = 40, 12
    index = delete(random_pairs(n, 2, seed), torch.tensor([5, 6]))
    generator = torch.Generator().manual_seed(seed)
    history = torch.stack([torch.randperm(n, generator=generator)[:3] for _ in range(users)])
    truth = random_truth(users, n, seed)
    compared = compare(index, history, truth, SearchSettings(6, beam, exclude_seen=exclude_seen))
    told = account(compared, truth, index, history, exclude_seen)
    best = [set(row) - {-1} for row in compared.best.items.tolist()]
    found = [set(row) - {-1} for row in compared.found.items.tolist()]
    pairs = [(user, item) for user, row in enumerate(truth.tolist()) for item in row if item >= 0]
    assert told.wanted == len(pairs)
    assert told.found == sum(item in found[user] for user, item in pairs)
    assert told.model == sum(item not in best[user] for user, item in pairs)
    assert told.search == sum(item in best[user] and item not in found[user] for user, item in pairs)
    assert told.lucky == sum(item not in best[user] and item in found[user] for user, item in pairs)
    assert told.wanted - told.found == told.model + told.search - told.lucky
    assert told.absent == sum(item in (5, 6) for _, item in pairs)
    met = [set(row) for row in history.tolist()]
    assert told.seen == sum(exclude_seen and item in met[user] and item not in (5, 6) for user, item in pairs)


@pytest.mark.parametrize("seed", range(5))
def test_i41_losses_by_level_add_up_to_what_the_beam_did_not_return(seed):
    index = random_rows(7, 50, 2, seed)
    compared = compare(index, nobody(7), random_truth(7, 50), SearchSettings(5, 3))
    there = compared.best.items >= 0
    lost = lost_at(compared.top_alive, there)
    best, found = compared.best.items.tolist(), compared.found.items.tolist()
    missing = sum(len(set(a) - set(b)) for a, b in zip(best, found, strict=True))
    assert int(lost.sum()) == missing > 0
    assert (
        int(lost[0]) == int(lost[-1]) == 0
    )  # the root is always kept, and a leaf that is scored is not lost


def test_i41_a_perfect_heap_loses_nothing_when_the_beam_holds_what_is_asked():
    index = perfect_heap(6, 60, 3, spare=0.2)
    compared = compare(index, nobody(6), random_truth(6, 60), SearchSettings(4, 4))
    assert torch.equal(compared.best.items, compared.found.items)
    assert int(lost_at(compared.top_alive, compared.best.items >= 0).sum()) == 0
    assert account(compared, random_truth(6, 60), index, nobody(6), False).search == 0


def test_who_wants_more_than_is_asked_for_is_crowded():
    index = random_rows(2, 20)
    truth = torch.tensor([[1, 2, 3, 4, 5], [6, -1, -1, -1, -1]])
    compared = compare(index, nobody(2), truth, SearchSettings(2, 20))
    told = account(compared, truth, index, nobody(2), False)
    assert told.crowded == 3
    assert told.model >= told.crowded
