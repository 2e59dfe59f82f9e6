import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from shortlist.cli import app
from shortlist.errors import ArtifactError, ConfigError, MissingExtraError
from shortlist.evaluate.full_catalog import rank_model
from shortlist.evaluate.scores import score_slates
from shortlist.index import search
from shortlist.index.registry import OPTIONAL, index_type
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.models import indexes
from shortlist.lab.experiments.models.indexes import (
    ANN,
    BEAMS,
    CODES,
    DEEP,
    OWN,
    OWN_SHARE,
    SHARE,
    TIME,
    TREE,
    WHOLE,
    _answers,
    _claims,
    _ratios,
    _shared,
    _times,
    _turned,
    dtr_table2_indexes,
    learned,
)
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.render import result_drawing, result_page
from shortlist.progress import silent
from shortlist.train.jtr import JTRTrainer
from tests.index.worlds import grouped
from tests.lab.experiments.shapes import check_shape, ids, points
from tests.lab.experiments.watching import watch_lessons

CLAIMED = {  # of everything that is no index of SASRec's vectors
    "jtr's beam keeps what exact search among its own vectors finds",
    "jtr, recall@20 over SASRec with exact search",
    f"{TREE}, recall@20 over SASRec with exact search",
}


@pytest.fixture
def few(monkeypatch):
    """Knobs are turned to two values, and time runs evenly: the later a way, the longer it takes."""
    monkeypatch.setattr(indexes, "ANN", {kind: (knob, values[:2]) for kind, (knob, values) in ANN.items()})
    monkeypatch.setattr(indexes, "BEAMS", {"jtr": (1, 32), TREE: (5, 150)})
    monkeypatch.setattr(
        indexes, "_times", lambda ways, count, progress: {way: 1.0 + at for at, way in enumerate(ways)}
    )


@pytest.fixture
def bare(monkeypatch):
    """Neither faiss nor scann is installed."""

    def found(kind):
        if kind in OPTIONAL:
            raise MissingExtraError("scann" if kind == "scann" else "faiss", "ann")
        return index_type(kind)

    monkeypatch.setattr(indexes, "index_type", found)


def value(told, method, metric):
    (one,) = [row["mean"] for row in told["rows"] if row["method"] == method and row["metric"] == metric]
    return one


def test_every_way_is_drawn_over_time_and_told_by_its_knob(few, cache_file):
    pytest.importorskip("faiss", reason="faiss is not installed")
    told = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file, kinds=["hnsw", "ivf"])
    check_shape(told, "dtr-table2-indexes")
    ways = {"hnsw": ("ef", 8, 16), "ivf": ("nprobe", 1, 2), "jtr": ("beam", 1, 32), TREE: ("beam", 5, 150)}
    for way, (knob, *values) in ways.items():
        times = [value(told, f"{way}, {knob} {one}", WHOLE) for one in values]
        assert list(points(told, way, "recall@20")) == times
        assert all(value(told, f"{way}, {knob} {one}", TIME) > 1 for one in values)
        assert all(0 <= value(told, f"{way}, {knob} {one}", SHARE) <= 1 for one in values)
    assert points(told, "exact", "recall@20").keys() == {1.0}
    assert value(told, "exact", SHARE) == 1.0
    assert value(told, "ivf, nprobe 2", SHARE) == 1.0  # so few items are looked at one by one
    assert value(told, "jtr, beam 32", OWN_SHARE) >= value(told, "jtr, beam 1", OWN_SHARE)
    assert ids(told) == CLAIMED | {f"{way} keeps what exact search finds" for way in ("hnsw", "ivf")}
    assert "note" not in told
    assert result_drawing(told).startswith("<svg")


def test_packages_that_are_not_here_are_named_and_the_rest_is_measured(few, bare, cache_file):
    told = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-table2-indexes")
    note = f"Not installed, and so not measured: {', '.join(indexes.ANN)}."
    assert told["note"] == note
    assert note in result_page(told)
    assert {one["method"].partition(",")[0] for one in told["rows"]} == {
        "exact",
        "jtr",
        TREE,
        "encoder of sasrec",
        "encoder of jtr",
    }
    assert ids(told) == CLAIMED


def test_exact_search_finds_what_ranking_everything_finds(few, bare, cache_file, ground):
    told = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    trial = Trial(ground, 0, AnswerCache.open(cache_file))
    ranked = rank_model(learned(trial).flat.model, trial.split.test, DEEP)
    expected = float(score_slates(ranked, trial.truth, (DEEP,))["f1@20"].nanmean())
    assert value(told, "exact", "f1@20") == pytest.approx(expected, abs=1e-9)


def test_kept_models_are_measured_again_by_the_command_and_not_learned(
    few, bare, cache_file, tmp_path, request, monkeypatch
):
    first = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("untaught")
    monkeypatch.setattr(JTRTrainer, "learn", lambda *_: pytest.fail("learned although it is kept"))
    taught = watch_lessons(monkeypatch)
    asked = ["--runs", "1", "--keep", str(cache_file), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "dtr-table2-indexes", *asked])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == first["rows"]
    assert taught == []
    assert "scann" in (tmp_path / "dtr-table2-indexes-quick.md").read_text()


def test_trees_of_other_settings_are_refused(few, bare, cache_file, ground, monkeypatch):
    dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    other = replace(ground, sizes={**ground.sizes, "steps": 6})
    with pytest.raises(
        ArtifactError, match=rf"'world/{TREE}, all of it/0' was kept with other settings \(steps 5, now"
    ):
        learned(Trial(other, 0, AnswerCache.open(cache_file)))
    longer = replace(ground, sizes={**ground.sizes, "ahead": 3})
    with pytest.raises(
        ArtifactError, match=r"'world/sasrec, all of it/0' was kept with other settings \(ahead 1, now 3"
    ):
        learned(Trial(longer, 0, AnswerCache.open(cache_file)))
    monkeypatch.setattr(indexes, "JTRTrainer", lambda **given: JTRTrainer(**{**given, "leaf": 30}))
    with pytest.raises(
        ArtifactError, match=r"'world/jtr, all of it/0' was kept with other settings \(leaf 20, now 30"
    ):
        learned(Trial(ground, 0, AnswerCache.open(cache_file)))


def test_models_that_were_kept_without_settings_are_taken(few, bare, cache_file, ground):
    dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    before = AnswerCache.open(cache_file)
    bald = AnswerCache(None, before.tensors, {name: {} for name in before.facts})
    assert learned(Trial(replace(ground, sizes={**ground.sizes, "ahead": 3}), 0, bald)).flat.model is not None


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(ConfigError, match="dtr-table2-indexes-mind: the full profile needs --data"):
        dtr_table2_indexes(None, "full", where="mind")


def test_an_index_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match="index must be one of"):
        dtr_table2_indexes(None, "quick", [0], kinds=["magic"])


def test_answers_are_those_of_all_users_in_order_filled_up_to_twenty():
    found = _answers(lambda some: torch.arange(230)[some, None] * torch.ones(1, 7, dtype=torch.int64), 230)
    assert found.shape == (230, DEEP)
    assert found[:, :7].eq(torch.arange(230)[:, None]).all()
    assert (found[:, 7:] == -1).all()


def test_times_are_one_for_every_way_and_ways_that_do_more_take_longer(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(indexes.time, "perf_counter", lambda: clock[0])
    asked = {"short": [], "long": []}

    def way(name, seconds):
        def search(some):
            asked[name].append(some.start)
            clock[0] += seconds

        return search

    ways = {("short", 0.0): way("short", 1.0), ("long", 2.0): way("long", 3.0)}
    assert _times(ways, 12, silent, asked=10) == {("short", 0.0): 1.0, ("long", 2.0): 3.0}
    assert set(range(10)) <= set(asked["short"])
    assert asked["short"] == asked["long"]


def test_the_share_of_what_exact_search_finds_counts_places_that_hold_something():
    exact = torch.tensor([[1, 2, 3], [4, 5, -1]])
    assert _shared(exact, exact) == 1.0
    assert _shared(torch.tensor([[3, 9, 1], [-1, -1, -1]]), exact) == pytest.approx(2 / 5)


def test_a_whole_request_is_encoder_and_search_and_the_deep_tree_has_no_encoder():
    seconds = {("exact", 0.0): 2.0, ("ivf", 1.0): 1.0, ("jtr", 4.0): 6.0, (OWN, 0.0): 2.0, (TREE, 5.0): 20.0}
    told = _ratios({**seconds, ("encoder of sasrec", 0.0): 8.0, ("encoder of jtr", 0.0): 9.0})
    whole = {way: one for (way, metric, _), one in told.items() if metric == WHOLE}
    assert whole == {"exact": 1.0, "ivf": 0.9, "jtr": 1.5, OWN: 1.1, TREE: 2.0}
    alone = {way: one for (way, metric, _), one in told.items() if metric == TIME}
    assert (alone["ivf"], alone[TREE], alone["encoder of sasrec"]) == (0.5, 10.0, 4.0)


@pytest.mark.parametrize("kind", ["ivf-pq", "residual"])
def test_codes_alone_answer_otherwise_than_lists_of_vectors(kind):
    pytest.importorskip("faiss", reason="faiss is not installed")
    items, queries = grouped(asked=40)
    exact, _ = search(items, queries, 10)
    found = {
        way: _shared(_turned(way, items, 0)[64.0].search(queries, 10)[0], exact)
        for way in ("ivf", kind, kind + CODES)
    }
    assert found[kind + CODES] < 0.95
    assert found[kind + CODES] < found[kind] <= found["ivf"] == 1.0


def test_what_the_widest_look_finds_decides_the_claims():
    rows = {("exact", "recall@20", 0.0): [0.2, 0.4]}
    for way, wide in (("hnsw", 0.96), ("jtr", 0.9), (TREE, 0.0)):
        for knob, share, recall in ((8.0, 0.5, 0.9), (16.0, wide, 0.27 if way == TREE else 0.3)):
            told = {SHARE: share, OWN_SHARE: share, "recall@20": recall, WHOLE: 1.5}
            rows |= {(way, metric, knob): [one, one] for metric, one in told.items()}
            rows[way, TIME, knob] = [knob, knob + 1]
    claims = {one["id"]: one for one in _claims(rows, ["hnsw"])}
    held = {name: (one["holds"], round(one["estimate"], 6)) for name, one in claims.items()}
    assert held == {
        "hnsw keeps what exact search finds": (True, 0.96),
        "jtr's beam keeps what exact search among its own vectors finds": (False, 0.9),
        "jtr, recall@20 over SASRec with exact search": (True, 1.0),
        f"{TREE}, recall@20 over SASRec with exact search": (False, 0.9),
    }
    note = claims["hnsw keeps what exact search finds"]["note"]
    assert "16.50 times exact search's time for the search, 1.50 times for the whole request" in note


def test_every_kind_of_index_is_turned_by_a_knob_it_has():
    assert {"jtr", TREE} == set(BEAMS)
    assert all(list(values) == sorted(values) for _, values in ANN.values())
    assert {knob for knob, _ in ANN.values()} == {"", "ef", "nprobe"}
    assert {way.removesuffix(CODES) for way in ANN} == set(OPTIONAL)


def test_threads_are_given_back(few, bare, cache_file):
    torch.set_num_threads(2)
    try:
        dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
