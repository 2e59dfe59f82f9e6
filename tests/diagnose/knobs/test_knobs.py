import pytest

from shortlist.diagnose.follow_items import follow
from shortlist.diagnose.knobs.knobs import Knob, knobs, rules, turns_of
from shortlist.diagnose.sample import panel, returned
from shortlist.grammar import as_pipeline
from shortlist.nominate import ModelNominator
from shortlist.pipeline import load_recommender, run
from shortlist.stages import Explore, Seen
from tests.diagnose.held_out_of import cases_of
from tests.diagnose.test_follow_items import wants
from tests.nominate.test_model import sasrec
from tests.worlds import N_ITEMS, Last, RandomScorer, listed, tiny


def told(pipeline, cases, n_items=N_ITEMS):
    one, whole = panel(cases, n_items), as_pipeline(pipeline)
    return knobs(whole, one, returned(whole, one))


def test_every_nominator_cut_and_strength_is_turned_and_the_slate_keeps_its_size():
    turns = [(turn.stage, turn.label, turn.setting) for turn in turns_of(tiny())]
    assert turns == [
        *((name, "limit", limit) for name in ("popular", "covisit", "nearest") for limit in ("24", "48")),
        ("prerank", "cut", "30"),
        ("prerank", "cut", "none"),
        ("rank", "cut", "20"),
        ("rank", "cut", "none"),
        ("diverse", "strength", "0"),
    ]


def test_a_knob_is_measured_as_if_someone_had_turned_it():
    cases, pipeline = wants(40), tiny()
    found = {(one.stage, one.label, one.setting): one for one in told(pipeline, cases)}
    one = panel(cases, N_ITEMS)
    *rest, diverse = pipeline.stages
    other = type(pipeline)((*rest, diverse.renewed(strength=0.0)))
    gain = (returned(other, one) - returned(pipeline, one)).sum() / one.wanted.sum()
    assert found["diverse", "strength", "0"].gain.mean == pytest.approx(gain)
    assert found["rank", "cut", "20"].candidates <= 20


def test_a_cut_that_is_too_small_shows_as_a_gain():
    pipeline = listed("a", range(20)) >> Seen(name="first") % 2 >> RandomScorer(name="rank", sides=1009) % 2
    cases = cases_of([([30], list(range(2, 20)))] * 40)
    found = {one.setting: one for one in told(pipeline, cases)}
    assert found["none"].gain.low > 0
    assert found["none"].candidates == 20.0


def test_chance_in_the_slate_and_places_in_the_middle_are_knobs():
    pipeline = listed("a", [1, 2, 3]) >> Last(name="middle", k=2) >> Explore(name="explore", heat=0.5, k=1)
    turns = [(turn.stage, turn.label, turn.setting) for turn in turns_of(as_pipeline(pipeline))]
    assert turns[2:] == [("middle", "places", "4"), ("explore", "chance", "none")]


def test_the_whole_catalogue_goes_through_in_portions(monkeypatch):
    pipeline, one = as_pipeline(tiny()), panel(wants(9), N_ITEMS)
    base = follow(pipeline, one).returned(len(one))
    whole = [knob.as_dict() for knob in knobs(pipeline, one, base)]
    widths = []
    monkeypatch.setattr("shortlist.diagnose.knobs.knobs.AT_ONCE", 2 * N_ITEMS)
    monkeypatch.setattr(
        "shortlist.diagnose.knobs.knobs.run",
        lambda pipeline, query: widths.append(len(query)) or run(pipeline, query),
    )
    assert [knob.as_dict() for knob in knobs(pipeline, one, base)] == whole
    assert (widths[0], widths[-1], max(widths[-5:])) == (9, 1, 2)


def test_a_tree_has_a_beam(world, tree_bundle):
    recommender = load_recommender(tree_bundle)
    turns = [(turn.stage, turn.label, turn.setting) for turn in turns_of(recommender.pipeline)]
    assert ("tree", "beam", "30") in turns  # a limit of 30 already widens a beam of 8 to 15
    split = world.split(**recommender.about["split"])
    one = panel(split.test, len(recommender.catalog))
    base = follow(recommender.pipeline, one).returned(len(one))
    found = {(k.label, k.setting): k for k in knobs(recommender.pipeline, one, base)}
    assert found["beam", "30"].gain.mean is not None


def test_an_approximate_index_may_look_further():
    pytest.importorskip("faiss", reason="faiss is not installed")
    pipeline = as_pipeline(
        ModelNominator(sasrec(), index="ivf", nprobe=1, name="near") >> Seen(name="seen") % 5
    )
    turn = next(turn for turn in turns_of(pipeline) if turn.label == "nprobe")
    assert (turn.stage, turn.setting) == ("near", "2")
    assert turn.pipeline.nominators[0].built.params.nprobe == 2


def test_what_a_rule_costs_stands_apart_from_advice():
    pipeline = as_pipeline(listed("a", [1, 2]) >> Seen(name="seen"))
    one = panel(cases_of([([1], [1]), ([0], [2])]), 10)
    base = returned(pipeline, one)
    (cost,) = rules(pipeline, one, base)
    assert (cost.stage, cost.label, cost.setting, cost.gain.mean) == ("seen", "rule", "left out", 0.5)
    assert all(one.label != "rule" for one in knobs(pipeline, one, base))


def test_a_knob_that_needs_training_says_so_without_a_gain():
    one = Knob("tree", "branch", "4", None, None, needs_training=True)
    assert one.as_dict() == {
        "stage": "tree",
        "label": "branch",
        "setting": "4",
        "gain": None,
        "candidates": None,
        "needs_training": True,
    }


def test_the_whole_catalogue_is_let_into_the_pool_where_it_is_not_too_large():
    pipeline = listed("a", range(4)) >> RandomScorer(name="rank", sides=1009) % 10
    cases = cases_of([([30], list(range(10, 20)))] * 40)
    (found,) = (one for one in told(pipeline, cases) if one.label == "named")
    assert (found.stage, found.setting, found.candidates) == ("pool", "everything", N_ITEMS)
    assert found.gain.mean > 0
    assert not any(one.label == "named" for one in told(pipeline, cases, 20_000))
    assert not any(one.label == "named" for one in told(listed("a", range(4)), cases))
