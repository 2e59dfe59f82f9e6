import numpy as np
import pytest

from shortlist.diagnose.knobs.knobs import knob_changes, measure_filters, measure_knobs
from shortlist.diagnose.sample import hits_per_request, sample_users
from shortlist.grammar import as_pipeline
from shortlist.nominate import ModelNominator
from shortlist.pipeline import load_recommender, run
from shortlist.stages import Explore, Seen
from tests.diagnose.held_out import held_out_of
from tests.diagnose.test_follow_items import random_requests
from tests.nominate.test_model import sasrec
from tests.worlds import N_ITEMS, Last, RandomScorer, listed, tiny


def measured(pipeline, held_out, n_items=N_ITEMS):
    sample, whole = sample_users(held_out, n_items), as_pipeline(pipeline)
    return measure_knobs(whole, sample, hits_per_request(whole, sample))


def settings_of(pipeline):
    return [(change.stage, change.knob, change.setting) for change in knob_changes(as_pipeline(pipeline))]


def test_limits_cuts_and_strength_are_changed_and_the_slate_keeps_its_size():
    assert settings_of(tiny()) == [
        *((name, "limit", limit) for name in ("popular", "covisit", "nearest") for limit in ("24", "48")),
        ("prerank", "cut", "30"),
        ("prerank", "cut", "none"),
        ("rank", "cut", "20"),
        ("rank", "cut", "none"),
        ("diverse", "strength", "0"),
    ]


def test_gain_of_a_knob_is_the_difference_of_mean_recall_per_user():
    held_out, pipeline = random_requests(40), tiny()
    found = {(one.stage, one.knob, one.setting): one for one in measured(pipeline, held_out)}
    sample = sample_users(held_out, N_ITEMS)
    *rest, diverse = pipeline.stages
    other = type(pipeline)((*rest, diverse.renewed(strength=0.0)))
    difference = hits_per_request(other, sample) - hits_per_request(pipeline, sample)
    assert found["diverse", "strength", "0"].gain.mean == pytest.approx(
        np.mean(difference / sample.n_relevant)
    )
    assert found["rank", "cut", "20"].candidates <= 20


def test_cut_that_is_too_small_has_a_significant_gain():
    pipeline = listed("a", range(20)) >> Seen(name="first") % 2 >> RandomScorer(name="rank", sides=1009) % 2
    held_out = held_out_of([([30], list(range(2, 20)))] * 40)
    found = {one.setting: one for one in measured(pipeline, held_out)}
    assert found["none"].gain.low > 0
    assert found["none"].candidates == 20.0


def test_exploration_and_the_size_of_a_selector_are_knobs():
    pipeline = (
        listed("a", [1, 2, 3]) >> Last(name="middle", k=2) >> Explore(name="explore", temperature=0.5, k=1)
    )
    assert settings_of(pipeline)[2:] == [("middle", "k", "4"), ("explore", "temperature", "0")]


def test_whole_catalogue_runs_in_small_batches(monkeypatch):
    pipeline, sample = as_pipeline(tiny()), sample_users(random_requests(9), N_ITEMS)
    base = hits_per_request(pipeline, sample)
    whole = measure_knobs(pipeline, sample, base)
    widths = []
    monkeypatch.setattr("shortlist.diagnose.knobs.knobs.AT_ONCE", 2 * N_ITEMS)
    monkeypatch.setattr(
        "shortlist.diagnose.knobs.knobs.run",
        lambda pipeline, query: widths.append(len(query)) or run(pipeline, query),
    )
    assert measure_knobs(pipeline, sample, base) == whole
    assert (widths[0], widths[-1], max(widths[-5:])) == (9, 1, 2)


def test_tree_has_a_beam(world, tree_bundle):
    recommender = load_recommender(tree_bundle)
    # A limit of 30 already widens a beam of 8 to 15.
    assert ("tree", "beam", "30") in settings_of(recommender.pipeline)
    found = {(one.knob, one.setting): one for one in measured(recommender.pipeline, world.split().test, 200)}
    assert found["beam", "30"].gain.mean is not None


def test_approximate_index_has_a_knob():
    pytest.importorskip("faiss", reason="faiss is not installed")
    pipeline = as_pipeline(
        ModelNominator(sasrec(), index="ivf", nprobe=1, name="near") >> Seen(name="seen") % 5
    )
    change = next(change for change in knob_changes(pipeline) if change.knob == "nprobe")
    assert (change.stage, change.setting) == ("near", "2")
    assert change.pipeline.nominators[0].built.params.nprobe == 2


def test_filters_are_measured_apart_from_knobs():
    pipeline = as_pipeline(listed("a", [1, 2]) >> Seen(name="seen"))
    sample = sample_users(held_out_of([([1], [1]), ([0], [2])]), 10)
    base = hits_per_request(pipeline, sample)
    (cost,) = measure_filters(pipeline, sample, base)
    assert (cost.stage, cost.knob, cost.setting, cost.gain.mean) == ("seen", "rule", "left out", 0.5)
    assert all(one.knob != "rule" for one in measure_knobs(pipeline, sample, base))


def test_whole_catalogue_is_measured_unless_it_is_large():
    pipeline = listed("a", range(4)) >> RandomScorer(name="rank", sides=1009) % 10
    held_out = held_out_of([([30], list(range(10, 20)))] * 40)
    (found,) = (one for one in measured(pipeline, held_out) if one.knob == "candidates")
    assert (found.stage, found.setting, found.candidates) == ("pool", "whole catalogue", N_ITEMS)
    assert found.gain.mean > 0
    assert not any(one.knob == "candidates" for one in measured(pipeline, held_out, 20_000))
    assert not any(one.knob == "candidates" for one in measured(listed("a", range(4)), held_out))
