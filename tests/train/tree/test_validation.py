import numpy as np
import pytest
import torch

from shortlist.data import HeldOut, Interactions
from shortlist.index.tree import exhaustive
from shortlist.metrics.ranking import f1, recall
from shortlist.train.tree.validation import answers, full_histories, quality
from tests.train.tree.small import cyclic_events, held_out, plan, small_index

HELD_OUT = held_out(cyclic_events(40), last=12)[1]


def index(**given):
    made = small_index(40, **given)
    made.scorer.eval()
    return made


def test_quality_equals_the_metrics_of_the_same_answers():
    entry = quality(index(), HELD_OUT, plan(), k=5)
    items, relevant = answers(index(), HELD_OUT, 5, plan().beam), HELD_OUT.relevant()
    assert entry.recall == pytest.approx(float(recall(items, relevant, 5).mean()))
    assert entry.f1 == pytest.approx(float(f1(items, relevant, 5).mean()))
    assert entry.distinct == len(set(items.flatten().tolist()) - {-1})


def test_answers_are_the_top_leaves_without_seen_items():
    found = answers(index(), HELD_OUT, 10, full=True)
    histories = HELD_OUT.query(width=6).history
    for user, items in enumerate(found.tolist()):
        seen = set(HELD_OUT.events.items[HELD_OUT.starts[user] : HELD_OUT.cuts[user]].tolist())
        ranked = exhaustive(index(), histories[user : user + 1], 40).items[0].tolist()
        assert items == [item for item in ranked if item not in seen][:10]


def test_full_histories_are_longer_than_the_scorers_history():
    seen = full_histories(HELD_OUT)
    assert seen.shape[1] == int(HELD_OUT.history_lengths().max()) > 6
    for user, row in enumerate(seen.tolist()):
        kept = HELD_OUT.events.items[HELD_OUT.starts[user] : HELD_OUT.cuts[user]].tolist()
        assert [item for item in row if item >= 0] == kept


def test_seen_items_are_returned_without_exclude_seen():
    kept, exclude_seen = (answers(index(), HELD_OUT, 40, beam=40, exclude_seen=one) for one in (False, True))
    assert (kept >= 0).all()
    assert (
        (exclude_seen < 0).sum(1)
        == torch.tensor([len(set(row) - {-1}) for row in full_histories(HELD_OUT).tolist()])
    ).all()


@pytest.mark.parametrize("product", [False, True])
def test_a_full_width_beam_equals_exhaustive_search(product):
    wide, full = (
        answers(index(branch=3), HELD_OUT, 7, beam=beam, product=product, full=full)
        for beam, full in ((100, False), (1, True))
    )
    assert torch.equal(wide, full)


def test_the_product_of_a_path_gives_another_ranking():
    one, two = (answers(index(), HELD_OUT, 10, full=True, product=product) for product in (False, True))
    assert not torch.equal(one, two)


@pytest.mark.parametrize("chunk", [1, 5, 12])
def test_answers_do_not_depend_on_the_chunk_size(chunk):
    assert torch.equal(answers(index(), HELD_OUT, 9, chunk=chunk), answers(index(), HELD_OUT, 9))


def test_no_held_out_users_have_no_answers():
    events = Interactions.of(np.empty(0, int), np.empty(0, int), n_items=40)
    none = np.empty(0, np.int64)
    cases = HeldOut(events, none, none, none)
    assert answers(index(), cases, 4).shape == (0, 4)
    assert full_histories(cases).shape == (0, 0)
