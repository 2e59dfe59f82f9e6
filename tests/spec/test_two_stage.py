"""Invariants (I) and worked numbers (W) of the specification of two-stage recommendation, by their numbers.

The other numbers are tested with their modules, I20 and I29 to I33 in tests/train/rankers.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from shortlist.data import Catalog, Interactions, Query, Vocabulary
from shortlist.diagnose import diagnose_pipeline
from shortlist.diagnose.follow_items import follow_relevant_items
from shortlist.diagnose.full_catalog import threshold
from shortlist.diagnose.sample import sample_users
from shortlist.diagnose.tree.max_heap import level_scores
from shortlist.diagnose.what_if import by_arithmetic, replay_oracles
from shortlist.evaluate.losses import decompose
from shortlist.grammar import as_pipeline
from shortlist.index.tree import TreeShape, by_vectors, exhaustive, pifa, search
from shortlist.index.tree.kmeans import improve, labels, objective, split, start
from shortlist.lab.theory.bounds import model_complexity, retrieval_bound
from shortlist.lab.theory.bounds_dtr import corollary1, dtr_bound, lemma1, lemma2
from shortlist.lab.theory.bounds_inputs import bottom_aligned, pair_factor, same_level_pairs, top_aligned
from shortlist.lab.theory.bounds_ranker import ranker_bound, shift_term, weight_shift
from shortlist.lab.theory.bounds_sampler import sampler_gap
from shortlist.lab.theory.margin import beam_candidates, lead, level_margins, path_margin
from shortlist.lab.theory.margin_checks import found_by_search, random_trees
from shortlist.models.nodes import NormLimits, ScorerConfig, make_scorer, norm_report, project_
from shortlist.pipeline import run
from shortlist.train.rankers.training_data.weights import weigh
from shortlist.train.tree.loss import level_softmax, margin, surrogate, top_k_hinge
from shortlist.train.tree.samplers.beam_sampler import BeamSampler
from tests.diagnose.test_bundle import without_times
from tests.diagnose.test_follow_items import random_requests
from tests.evaluate.test_losses import nested
from tests.index.tree.tabular import no_histories, random_rows
from tests.index.tree.test_kmeans import draws, optimum, vectors
from tests.lab.theory.test_bounds_inputs import inputs
from tests.lab.theory.test_bounds_sampler import exact_gap
from tests.models.nodes.worlds import perturbed, rows_of, small
from tests.nominate.test_tree import nominator
from tests.worlds import N_ITEMS, RandomNominator, RandomScorer, listed, tiny

THEORY = {"norm": "none", "output": "linear", "bias": False, "history": "item"}
BITS = 1 / math.log(2)
each_kind = pytest.mark.parametrize("kind", ["linear", "mlp", "attention"])
both_forms = pytest.mark.parametrize("exclude_self", [False, True])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def level_of(*values):
    """The logits of one level of one user, the positive first, and a mask of valid nodes."""
    logits = torch.tensor([[values]], dtype=torch.float64)
    return logits, torch.ones_like(logits, dtype=torch.bool)


def lead_of(k, exclude_self, *values):
    """The lead of the first score over the others."""
    logits, valid = level_of(*values)
    return lead(logits[:, 0], torch.tensor([0]), valid[:, 0], k, exclude_self)


def scored_tree(users=40, n=27, branch=3, seed=0):
    shape = TreeShape(n, branch)
    values = tuple(
        torch.randn(users, size, generator=seeded(seed), dtype=torch.float64) for size in shape.sizes
    )
    return shape, values, torch.randint(n, (users,), generator=seeded(seed + 1))


# Item vectors and tree building


def test_i01_indicator_vectors_have_length_1_and_their_products_are_co_counts():
    interacted = (np.random.default_rng(1).random((25, 8)) < 0.4).astype(float)
    z, count = pifa(interacted).toarray(), interacted.sum(0)
    assert np.linalg.norm(z, axis=1) == pytest.approx(np.ones(8))
    assert z @ z.T == pytest.approx((interacted.T @ interacted) / np.sqrt(count[:, None] * count))


def test_i02_aggregated_features_are_indicator_vectors_when_each_row_is_its_own():
    interacted = np.random.default_rng(2).integers(0, 2, (12, 7)).astype(float)
    assert pifa(interacted, np.eye(12)).toarray() == pytest.approx(pifa(interacted).toarray())


@pytest.mark.parametrize("branch", [2, 3, 5])
def test_i03_balanced_k_means_is_a_permutation_with_children_of_the_given_sizes(branch):
    assert sorted(by_vectors(vectors(41, 6), branch).tolist()) == list(range(41))
    at = split(vectors(1, 41, 6), 9, draws(1, 5))
    assert labels(at, 9)[0].bincount().tolist() == [9, 9, 9, 9, 5]


def test_i03_a_split_in_two_is_the_best_of_all_subsets():
    cosines = torch.rand(1, 9, 2, generator=seeded(3))
    cosine = cosines[0].tolist()
    best = max(
        sum(cosine[item][item not in left] for item in range(9))
        for left in map(set, itertools.combinations(range(9), 5))
    )
    at = improve(cosines, start(cosines, 5), 5)
    assert objective(cosines, at, 5).item() == pytest.approx(best, abs=1e-6)


def test_i04_swaps_are_at_least_greedy_and_at_most_the_linear_assignment():
    cosines = torch.rand(1, 60, 5, generator=seeded(4))
    greedy = start(cosines, 12)
    swapped = improve(cosines, greedy, 12)
    values = [objective(cosines, at, 12).item() for at in (greedy, swapped)]
    assert values[0] - 1e-5 <= values[1] <= optimum(cosines[0], 12) + 1e-5


def test_i05_planted_clusters_of_equal_size_are_recovered():
    planted = torch.eye(4).repeat(16, 1) + 0.02 * torch.randn(64, 4, generator=seeded(5))
    found = planted[by_vectors(planted, 4)].argmax(1).view(4, 16)
    assert bool((found == found[:, :1]).all())


def test_w07_two_items_by_hand():
    interacted = np.array([[1, 0], [1, 1], [0, 1]])
    one, other = pifa(interacted).toarray()
    assert one @ other == pytest.approx(0.5)
    one, other = pifa(interacted, np.array([[1, 0], [0, 1], [1, 1]])).toarray()
    assert one == pytest.approx([0.7071, 0.7071], abs=1e-4)
    assert other == pytest.approx([0.4472, 0.8944], abs=1e-4)
    assert one @ other == pytest.approx(0.9487, abs=1e-4)


# Scorers


@each_kind
def test_i06_scores_of_a_batch_are_those_of_single_pairs(kind):
    scorer = perturbed(small(kind=kind, **THEORY)).double().eval()
    history, rows = rows_of(scorer.config)
    together = scorer(history, rows)
    for user, at in itertools.product(range(4), range(5)):
        alone = scorer.naive(history[user : user + 1], rows[user : user + 1, at : at + 1])
        assert abs(together[user, at] - alone[0, 0]) < 1e-12


@each_kind
def test_i06_scores_do_not_depend_on_padding(kind):
    scorer = perturbed(small(kind=kind, **THEORY)).double().eval()
    history, rows = torch.tensor([[3, 1, 4]]), torch.tensor([[1, 5, 9]])
    padded = torch.nn.functional.pad(history, (9, 0), value=-1)
    torch.testing.assert_close(scorer(history, rows), scorer(padded, rows), rtol=1e-12, atol=1e-12)


def test_i06_windows_are_those_of_the_paper_in_reverse_order():
    config = ScorerConfig(1)
    assert config.max_history == sum(config.windows) == 69
    assert config.windows[::-1] == (1, 1, 1, 2, 2, 2, 10, 10, 20, 20)  # printed with the newest first


@each_kind
@pytest.mark.parametrize("seed", range(3))
def test_i07_scores_are_within_the_bound(kind, seed):
    scorer = perturbed(small(kind=kind, **THEORY), seed).double().eval()
    norms = norm_report(scorer, [rows_of(scorer.config, users=30, candidates=30, seed=seed)])
    assert norms.observed <= norms.bf


@each_kind
def test_i07_projecting_is_idempotent_and_no_norm_grows(kind):
    scorer, limits = perturbed(small(kind=kind, **THEORY)), NormLimits(b0=1.5, b1=0.8, b2=0.5, ba=2.0)
    before = norm_report(scorer)
    project_(scorer, limits)
    after, kept = norm_report(scorer), {name: one.clone() for name, one in scorer.state_dict().items()}
    project_(scorer, limits)
    assert all(torch.equal(one, kept[name]) for name, one in scorer.state_dict().items())
    assert after.b0 <= min(before.b0, 1.5)
    assert after.ba <= min(before.ba, 2.0)
    pairs = zip((*after.layers, *after.unit), (*before.layers, *before.unit), strict=True)
    assert all(one.row <= other.row and one.column <= other.column for one, other in pairs)
    assert max((one.row for one in after.layers), default=0.0) <= 0.8
    assert max((one.row for one in after.unit), default=0.0) <= 0.5


@pytest.mark.parametrize("kind", ["mlp", "attention"])
def test_i08_scores_are_positively_homogeneous_in_the_last_matrix(kind):
    scorer = perturbed(small(kind=kind, **THEORY)).double().eval()
    batch = rows_of(scorer.config)
    before = scorer(*batch)
    with torch.no_grad():
        scorer.layers.out.weight *= 3.0
    assert torch.allclose(scorer(*batch), 3.0 * before, rtol=1e-12, atol=1e-12)


def test_w08_target_attention_by_hand():
    config = ScorerConfig(1, 2, width=1, hidden=1, layers=(1,), windows=(1, 1), **THEORY)
    scorer = make_scorer(config, 0).double().eval()
    with torch.no_grad():
        for name, weight in scorer.named_parameters():
            weight.fill_(0.0 if name.endswith("slope") else 1.0)  # PReLU of slope 0 is ReLU
        scorer.items.weight.copy_(torch.tensor([[2.0], [-1.0]]))
    history, row = torch.tensor([[0, 1]]), torch.tensor([[0]])
    a, there = scorer.history_vectors(history)
    assert scorer._naive_weights(a, there, scorer.lookup(row)).flatten().tolist() == [5.0, 0.0]
    assert scorer(history, row).item() == scorer.naive(history, row).item() == 11.0


# Margins


@both_forms
def test_i09_a_margin_of_at_least_0_is_retrieval(exclude_self):
    for case in random_trees(100, seed=9):
        shape, values, leaf, k = case
        cand = beam_candidates(shape, values, k)
        found = path_margin(shape, values, leaf, k, cand=cand, exclude_self=exclude_self)
        assert torch.equal(found.value >= 0, found_by_search(case))


@both_forms
def test_i09_margin_predicts_what_search_retrieves(exclude_self):
    index = random_rows(64, 64, 4, seed=9)
    values, leaf = level_scores(index, no_histories(64)), torch.arange(64)
    shape, items = index.tree.shape, index.tree.item_of_leaf.long()
    found = (search(index, no_histories(64), 5, 5).items == items[:, None]).any(1)
    margins = path_margin(
        shape, values, leaf, 5, cand=beam_candidates(shape, values, 5), exclude_self=exclude_self
    )
    assert torch.equal(margins.value >= 0, found)


def test_i10_margin_without_the_leaf_level_does_not_predict_retrieval():
    wrong = 0
    for case in random_trees(30, seed=10):
        shape, values, leaf, k = case
        leads = level_margins(shape, values, leaf, k, cand=beam_candidates(shape, values, k))
        above = torch.nn.functional.pad(leads[:, :-1], (0, 1), value=torch.inf).amin(1)
        wrong += int(((above >= 0) != found_by_search(case)).sum())
    assert wrong > 0


def test_i11_margin_for_k_1_with_the_target_among_its_rivals_is_at_most_0():
    shape, values, leaf = scored_tree()
    cand = beam_candidates(shape, values, 1)
    assert float(path_margin(shape, values, leaf, 1, cand=cand, exclude_self=False).value.max()) <= 0


@both_forms
def test_i12_full_level_margin_is_a_lower_bound_and_exact_for_a_full_beam(exclude_self):
    shape, values, leaf = scored_tree()
    more = {"exclude_self": exclude_self}
    for k in (1, 2, 4):
        beam = path_margin(shape, values, leaf, k, cand=beam_candidates(shape, values, k), **more)
        full = path_margin(shape, values, leaf, k, **more)
        assert bool((full.value <= beam.value).all())
        assert k > 2 or bool((full.value < beam.value).any())
    wide = shape.sizes[-2]
    cand = beam_candidates(shape, values, wide)
    same = [path_margin(shape, values, leaf, 2, beam=wide, cand=one, **more).value for one in (cand, None)]
    assert torch.equal(*same)


@both_forms
def test_i13_full_level_margin_is_root_two_lipschitz_and_the_beam_margin_is_not(exclude_self):
    shape, values, leaf = scored_tree(users=500)
    _, other, _ = scored_tree(users=500, seed=7)
    for step in (1e-4, 0.03, 1.0):
        moved = tuple(a + step * b for a, b in zip(values, other, strict=True))
        far = torch.cat([step * one for one in other], 1).norm(dim=1)
        full = [path_margin(shape, one, leaf, 2, exclude_self=exclude_self).value for one in (values, moved)]
        assert bool(((full[0] - full[1]).abs() <= math.sqrt(2) * far * (1 + 1e-9)).all())
    step = 0.03
    moved = tuple(a + step * b for a, b in zip(values, other, strict=True))
    beam = [
        path_margin(shape, one, leaf, 2, cand=beam_candidates(shape, one, 2)).value for one in (values, moved)
    ]
    far = torch.cat([step * one for one in other], 1).norm(dim=1)
    assert bool(((beam[0] - beam[1]).abs() > math.sqrt(2) * far).any())


def test_w01_a_margin_jumps_from_0_to_minus_100():
    shape, leaf = TreeShape(4), torch.tensor([0])
    for above, expected, best_leaf in ((0.01, 0.0, 0), (-0.01, -100.0, 2)):
        values = (torch.zeros(1, 1), torch.tensor([[above, 0.0]]), torch.tensor([[1.0, 0.0, 101.0, 50.0]]))
        cand = beam_candidates(shape, values, 1)
        assert path_margin(shape, values, leaf, 1, cand=cand, exclude_self=False).value.item() == expected
        best = values[2].masked_fill(~cand[2], -torch.inf).argmax()
        assert int(best) == best_leaf


# Losses


@pytest.mark.parametrize("k", [2, 3, 4])
def test_i14_losses_bound_the_retrieval_error_and_sums_bound_maxima(k):
    logits = 2 * torch.randn(3000, 3, 6, generator=seeded(14), dtype=torch.float64)
    valid = torch.ones_like(logits, dtype=torch.bool)
    first = torch.zeros(3000, dtype=torch.int64)
    for exclude_self in (False, True):
        leads = [lead(logits[:, at], first, valid[:, at], k, exclude_self) for at in range(3)]
        g = torch.stack(leads, 1).amin(1)
        losses = {
            "margin": (margin(logits, valid, reduction="none"), "hinge"),
            "top-k": (top_k_hinge(logits, valid, k=k, self_cost=not exclude_self, reduction="none"), "hinge"),
            "softmax": (BITS * level_softmax(logits, valid, reduction="none"), "logistic"),
        }
        for each, phi in losses.values():
            assert bool((surrogate(g, phi) <= each.amax(1) + 1e-9).all())
            assert bool((each.amax(1) <= each.sum(1) + 1e-9).all())
            lost = (g < 0).double()
            assert bool((surrogate(g, phi) >= lost).all())


def test_i14_fails_for_k_1_as_printed_and_holds_without_the_target_itself():
    logits, valid = level_of(3.0, 0.0, -1.0)
    printed = lead_of(1, False, 3.0, 0.0, -1.0)
    assert surrogate(printed, "hinge").item() > margin(logits, valid).item()
    assert surrogate(printed, "logistic").item() > BITS * level_softmax(logits, valid).item()
    assert surrogate(printed, "hinge").item() <= top_k_hinge(logits, valid, k=1, self_cost=True).item()
    others = lead_of(1, True, 3.0, 0.0, -1.0)
    assert surrogate(others, "hinge").item() <= margin(logits, valid).item()
    assert surrogate(others, "logistic").item() <= BITS * level_softmax(logits, valid).item()


def test_w02_leads_and_losses_by_hand():
    logits, valid = level_of(3.0, 0.0, -1.0)
    one, two = lead_of(1, False, 3.0, 0.0, -1.0), lead_of(2, False, 3.0, 0.0, -1.0)
    assert (one.item(), two.item()) == (0.0, 3.0)
    assert surrogate(one).item() == 1.0 > margin(logits, valid).item() == 0.0
    assert surrogate(one, "logistic").item() == pytest.approx(1.0)
    assert BITS * level_softmax(logits, valid).item() == pytest.approx(0.09505, abs=1e-5)
    assert surrogate(two).item() == 0.0
    assert surrogate(two, "logistic").item() == pytest.approx(0.07010, abs=1e-5)
    logits, valid = level_of(-0.5, 0.0, 2.0)
    lost = lead_of(2, False, -0.5, 0.0, 2.0)
    assert (lost.item(), surrogate(lost).item()) == (-0.5, 1.5)
    assert margin(logits, valid).item() == 3.5
    assert top_k_hinge(logits, valid, k=2, self_cost=True).item() == 2.5
    assert surrogate(lost, "logistic").item() == pytest.approx(1.40530, abs=1e-5)
    assert BITS * level_softmax(logits, valid).item() == pytest.approx(3.89056, abs=1e-5)


def test_i15_gradients_are_numerically_correct():
    logits = torch.randn(5, 2, 6, generator=seeded(15), dtype=torch.float64, requires_grad=True)
    valid = torch.ones_like(logits, dtype=torch.bool)
    losses = [
        *(lambda x, phi=phi: margin(x, valid, phi=phi, gamma=4.0) for phi in ("hinge", "ramp", "logistic")),
        *(lambda x, own=own: top_k_hinge(x, valid, k=3, self_cost=own) for own in (False, True)),
        lambda x: level_softmax(x, valid),
    ]
    for loss in losses:
        assert torch.autograd.gradcheck(loss, (logits,))
    shape, values, leaf = scored_tree(users=3)
    scores = tuple(one.requires_grad_() for one in values)
    assert torch.autograd.gradcheck(lambda *x: path_margin(shape, x, leaf, 2).value, scores)


def test_i16_softmax_loss_is_nonnegative_only_with_the_positive_in_its_denominator():
    shape, values, leaf = scored_tree(users=200)
    levels = tuple(range(1, shape.height + 1))
    sampled = BeamSampler(2).sample(
        shape, levels, leaf, seeded(), lambda j, nodes: values[j].gather(1, nodes)
    )
    logits = torch.stack([values[j].gather(1, sampled.nodes[:, at]) for at, j in enumerate(levels)], 1)
    assert bool((level_softmax(logits, sampled.valid, reduction="none") >= 0).all())
    assert not bool(sampled.reached.all())
    others = logits.masked_fill(~sampled.valid, -torch.inf)[..., 1:].logsumexp(2)
    assert bool((others - logits[..., 0])[~sampled.reached].min() < 0)


# Tree shapes


def test_w10_pairs_of_one_level_by_hand():
    assert (top_aligned(5, 2), bottom_aligned(5, 2)) == ((1, 2, 4, 5), (1, 2, 3, 5))
    assert same_level_pairs((1, 2, 4, 5)) == 34
    assert same_level_pairs((1, 2, 3, 5)) == 28
    assert pair_factor(5, 2) ** 2 == pytest.approx(100 / 3)
    assert TreeShape(5, 2).sizes == (1, 2, 3, 5)


# Two stages


def choice(query, candidates, scorer):
    """The candidate with the best score, request by request, in plain Python."""
    found = []
    for row in range(len(query)):
        one = query.take(slice(row, row + 1))
        everything = listed("all", range(N_ITEMS), limit=N_ITEMS)(one, None)
        scores = scorer.score(one, everything)[0].tolist()
        found.append(max(candidates[row], key=lambda item: scores[item], default=-1))
    return found


@pytest.mark.parametrize("limit", [1, 7, N_ITEMS])
def test_i17_slate_is_the_best_retrieved_candidate(limit):
    query, scorer = (
        sample_users(random_requests(30), N_ITEMS).batches[0].query,
        RandomScorer(name="rank", sides=1_000_003),
    )
    pool = (
        RandomNominator(name="n0", width=25, limit=limit)
        if limit < N_ITEMS
        else listed("all", range(N_ITEMS))
    )
    trace = run(as_pipeline(pool >> scorer % 1), query).trace
    retrieved = [
        row[valid].tolist() for row, valid in zip(trace.nominated.items, trace.nominated.valid, strict=True)
    ]
    slate = [row[0] if row else -1 for row in trace.steps[1].after.items.tolist()]
    assert slate == choice(query, retrieved, scorer)
    if limit == 1:  # the retriever's own first
        assert slate == [row[0] for row in retrieved]
    if limit == N_ITEMS:
        assert slate == choice(query, [list(range(N_ITEMS))] * len(query), scorer)


def test_i18_slate_does_not_depend_on_the_order_of_candidates():
    query, rows = sample_users(random_requests(20), N_ITEMS).batches[0].query, list(range(3, 30))
    scorer = RandomScorer(name="rank", sides=1_000_003)
    slates = [run(as_pipeline(listed("a", one) >> scorer % 5), query).items for one in (rows, rows[::-1])]
    assert torch.equal(*slates)


@pytest.mark.parametrize(("beam", "count"), [(20, 20), (60, 20), (2, None)])
def test_i19_excluded_history_items_are_not_nominated_and_take_no_place(beam, count):
    """A beam that reaches too few other leaves nominates fewer items."""
    history = list(range(0, 40, 2))
    unseen, plain = (
        (nominator(beam=beam, exclude_seen=one) % 20).nominate(Query.of([history])).items[0].tolist()
        for one in (True, False)
    )
    assert not set(unseen) & set(history)
    assert count is None or len(set(unseen) - {-1}) == count
    assert set(plain) & set(history)


def test_i26_replay_is_at_most_the_ceiling_and_an_oracle_ranker_loses_only_what_retrieval_does():
    gained = 0
    for salt in range(20):
        scorer = RandomScorer(name="rank", sides=1_000_003, salt=salt)
        pipeline = as_pipeline(RandomNominator(name="n0", width=15, limit=15, salt=salt) >> scorer % 1)
        one = sample_users(random_requests(12, salt, most=2), N_ITEMS)  # one relevant item each
        followed = follow_relevant_items(pipeline, one)
        losses, base = decompose(followed.trace), followed.hits(len(one))
        oracles, _ = replay_oracles(pipeline, one)
        for place in range(2):
            ceiling, _ = by_arithmetic(losses, place)
            assert (oracles[:, place] - base).sum() / one.n_relevant.sum() <= ceiling + 1e-12
        assert oracles[:, 1].sum() == losses.alive[1]  # all that was retrieved
        gained += int((oracles[:, 0] - base).sum())
    assert gained > 0


def test_i43_same_seed_gives_the_same_diagnosis():
    ids = Vocabulary.of([f"i{row}" for row in range(N_ITEMS)])
    learned = Interactions.of(np.arange(60) % 6, np.arange(60) % N_ITEMS, np.arange(60), n_items=N_ITEMS)
    one, same, other = (
        without_times(
            diagnose_pipeline(tiny(), random_requests(60), learned, Catalog.bare(ids), users=40, seed=seed)
        )
        for seed in (4, 4, 5)
    )
    assert one == same
    assert one != other


def test_w03_ten_instances_and_three_stages():
    losses = decompose(nested([8, 6, 3], 10))
    assert losses.conditional == (0.2, 0.25, 0.5)
    assert (losses.first_losses / 10).tolist() == [0.2, 0.2, 0.3]
    assert losses.error == pytest.approx(0.7)
    assert by_arithmetic(losses, 0) == (0.2, pytest.approx(0.075))


def test_w04_threshold_recall_by_hand():
    assert threshold(0.8, 0.6) == pytest.approx(0.5)


def test_w09_weights_for_recall_one_fifth():
    flags = np.arange(10) < 2
    weights = weigh(flags, 0.0).values
    assert weights.tolist() == [5.0] * 2 + [0.0] * 8
    assert np.abs(1 - weights).mean() == pytest.approx(1.6) == weight_shift(flags)
    assert shift_term(0.2, "paper").value == pytest.approx(1.6)
    assert shift_term(0.2, "paper").value + 0.2 == pytest.approx(1.8)  # above 1: the bound is vacuous


# Bounds


@pytest.mark.parametrize("seed", range(8))
def test_i36_gap_of_one_sample_equals_the_corrected_divergence_and_more_samples_stay_below(seed):
    random = np.random.default_rng(seed)
    size, at = int(random.integers(3, 7)), int(random.integers(0, 3))
    scores = torch.from_numpy(random.normal(0, 2, size))
    q = torch.from_numpy(random.dirichlet(np.ones(size)))
    gap = sampler_gap(scores[None], torch.tensor([at]), q[None], 1, draws=1)
    assert exact_gap(scores, at, q, 1) == pytest.approx(gap.kl_plus, abs=1e-10)
    for negatives in (2, 4):
        assert -1e-12 <= exact_gap(scores, at, q, negatives) <= gap.kl_plus + 1e-12
    assert gap.kl_plus <= gap.kl


@pytest.mark.parametrize("constants", ["paper", "corrected"])
@pytest.mark.parametrize("norms", ["fixed", "measured"])
@pytest.mark.parametrize("scorer", ["linear", "mlp", "attention"])
def test_i38_bounds_decrease_with_instances_and_increase_with_norms(scorer, norms, constants):
    one = inputs(100, 4, 4000, scorer=scorer, layers=3, norms=norms, k=20)
    usual = every_bound(one, constants)
    more = every_bound(replace(one, n_train=16_000), constants)
    assert all(more[name] < value for name, value in usual.items())
    increased = set()
    for name in ("b0", "bx", "ba", "b1", "b2", "c_sigma"):
        larger = every_bound(replace(one, **{name: 2.5}), constants)
        assert all(larger[bound] >= value for bound, value in usual.items())
        increased |= {bound for bound, value in usual.items() if larger[bound] > value}
    assert increased == set(usual)


def every_bound(one, constants):
    """The total of every bound for this kind of scorer."""
    kind = {"linear": "paper_linear", "mlp": "paper_mlp", "attention": "paper_ta"}[one.scorer]
    found = {
        "model": model_complexity(one, constants).value,
        "ranker": ranker_bound(one, 0.3, 0.9, constants).total.value,
        "harmonised": ranker_bound(one, 0.3, 1.0, constants, harmonised=True).total.value,
        **{
            f"retrieval, {each}": retrieval_bound(one, 0.5, each, constants=constants).total.value
            for each in (kind, "pair_exact", "rigorous_model")
        },
    }
    if one.scorer == "attention":
        found["lemma 1"] = lemma1(one, constants).value
        found["lemma 2"] = lemma2(one, 2, 1.0, constants).total.value
        found["theorem 4"] = dtr_bound(one, 3.0, constants=constants).total.value
    return found


def test_w06_the_tight_corollary():
    assert corollary1(13, 0.1).value == pytest.approx(1.2643, abs=5e-5)
    assert corollary1(13, 0.1, 7129, 5.0, "paper").value == pytest.approx(19.160, abs=5e-4)


# Heaps


def test_i41_beam_without_misses_is_exhaustive_but_not_conversely():
    clean = alike_with_a_miss = 0
    for seed in range(400):
        k, index = 1 + seed % 3, random_rows(1, 4 + seed % 9, 2, seed)
        shape, values = index.tree.shape, level_scores(index, no_histories(1))
        found, best = (
            set(one.items[0].tolist()) - {-1}
            for one in (search(index, no_histories(1), k, k), exhaustive(index, no_histories(1), k))
        )
        leaves = index.tree.leaves(torch.tensor(sorted(best)))
        cand = beam_candidates(shape, values, k)
        missed = outside = False
        for level in range(1, shape.height + 1):
            up = set(shape.ancestor(leaves, level).tolist())
            order = values[level][0].argsort(descending=True, stable=True).tolist()
            missed |= not up <= set(order[:k])
            kept = [node for node in order if bool(cand[level][0, node])][:k]
            outside |= not up <= set(kept)
        assert missed or found == best
        assert outside == (found != best)  # exact: membership in the beam
        clean += not missed
        alike_with_a_miss += missed and found == best
    assert clean > 0
    assert alike_with_a_miss > 0
