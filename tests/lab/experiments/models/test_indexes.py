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
    OWN,
    OWN_SHARE,
    SHARE,
    TIME,
    TOP,
    TREE,
    WHOLE,
    _answers,
    _claims,
    _ratios,
    _shared,
    _times,
    _with_knobs,
    dtr_table2_indexes,
    trained_stages,
)
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.render import result_drawing, result_page
from shortlist.lab.result import result_json
from shortlist.progress import silent
from shortlist.train.jtr import JTRTrainer
from tests.index.worlds import grouped
from tests.lab.experiments.results import check_result, ids, points
from tests.lab.experiments.training_calls import record_training

CLAIMS = {  # about everything except indexes of SASRec's vectors
    "jtr's beam keeps what exact search among its own vectors finds",
    "jtr, recall@20 over SASRec with exact search",
    f"{TREE}, recall@20 over SASRec with exact search",
}


@pytest.fixture
def few(monkeypatch):
    """Knobs have two values, and the times of searches grow with their position."""
    monkeypatch.setattr(indexes, "ANN", {kind: (knob, values[:2]) for kind, (knob, values) in ANN.items()})
    monkeypatch.setattr(indexes, "BEAMS", {"jtr": (1, 32), TREE: (5, 150)})
    monkeypatch.setattr(
        indexes,
        "_times",
        lambda searches, count, progress: {one: 1.0 + at for at, one in enumerate(searches)},
    )


@pytest.fixture
def no_ann_packages(monkeypatch):
    """Neither faiss nor scann is installed."""

    def found(kind):
        if kind in OPTIONAL:
            raise MissingExtraError("scann" if kind == "scann" else "faiss", "ann")
        return index_type(kind)

    monkeypatch.setattr(indexes, "index_type", found)


def value(result, method, metric):
    (one,) = [row.mean for row in result.rows if row.method == method and row.metric == metric]
    return one


def test_every_search_is_drawn_over_time_and_labelled_with_its_knob(few, cache_file):
    pytest.importorskip("faiss", reason="faiss is not installed")
    result = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file, kinds=["hnsw", "ivf"])
    check_result(result, "dtr-table2-indexes")
    ways = {"hnsw": ("ef", 8, 16), "ivf": ("nprobe", 1, 2), "jtr": ("beam", 1, 32), TREE: ("beam", 5, 150)}
    for way, (knob, *values) in ways.items():
        times = [value(result, f"{way}, {knob} {one}", WHOLE) for one in values]
        assert list(points(result, way, "recall@20")) == times
        assert all(value(result, f"{way}, {knob} {one}", TIME) > 1 for one in values)
        assert all(0 <= value(result, f"{way}, {knob} {one}", SHARE) <= 1 for one in values)
    assert points(result, "exact", "recall@20").keys() == {1.0}
    assert value(result, "exact", SHARE) == 1.0
    assert value(result, "ivf, nprobe 2", SHARE) == 1.0  # so few items are searched exactly
    assert value(result, "jtr, beam 32", OWN_SHARE) >= value(result, "jtr, beam 1", OWN_SHARE)
    assert ids(result) == CLAIMS | {f"{way} keeps what exact search finds" for way in ("hnsw", "ivf")}
    assert result.note == ""
    assert result_drawing(result).startswith("<svg")


def test_missing_packages_are_listed_and_the_rest_is_measured(few, no_ann_packages, cache_file):
    result = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-table2-indexes")
    note = f"Not installed, and so not measured: {', '.join(indexes.ANN)}."
    assert result.note == note
    assert note in result_page(result)
    assert {one.method.partition(",")[0] for one in result.rows} == {
        "exact",
        "jtr",
        TREE,
        "encoder of sasrec",
        "encoder of jtr",
    }
    assert ids(result) == CLAIMS


def test_exact_search_agrees_with_ranking_the_whole_catalogue(few, no_ann_packages, cache_file, data_setup):
    result = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    trial = Trial(data_setup, 0, AnswerCache.open(cache_file))
    ranked = rank_model(trained_stages(trial).sasrec.model, trial.split.test, TOP)
    expected = float(score_slates(ranked, trial.relevant, (TOP,))["f1@20"].nanmean())
    assert value(result, "exact", "f1@20") == pytest.approx(expected, abs=1e-9)


def test_cached_models_are_measured_again_without_training(
    few, no_ann_packages, cache_file, tmp_path, request, monkeypatch
):
    first = dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("no_training")
    monkeypatch.setattr(JTRTrainer, "learn", lambda *_: pytest.fail("trained although it is cached"))
    called = record_training(monkeypatch)
    arguments = ["--runs", "1", "--cache", str(cache_file), "--out", str(tmp_path), "--json"]
    answer = CliRunner().invoke(app, ["reproduce", "dtr-table2-indexes", *arguments])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["rows"] == result_json(first)["rows"]
    assert called == []
    assert "scann" in (tmp_path / "dtr-table2-indexes-quick.md").read_text()


def test_trees_of_other_settings_are_refused(few, no_ann_packages, cache_file, data_setup, monkeypatch):
    dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    other = replace(data_setup, sizes={**data_setup.sizes, "steps": 6})
    with pytest.raises(
        ArtifactError, match=rf"'world/{TREE}, all of it/0' was cached with other settings \(steps 5, now"
    ):
        trained_stages(Trial(other, 0, AnswerCache.open(cache_file)))
    longer = replace(data_setup, sizes={**data_setup.sizes, "ahead": 3})
    with pytest.raises(
        ArtifactError, match=r"'world/sasrec, all of it/0' was cached with other settings \(ahead 1, now 3"
    ):
        trained_stages(Trial(longer, 0, AnswerCache.open(cache_file)))
    monkeypatch.setattr(indexes, "JTRTrainer", lambda **settings: JTRTrainer(**{**settings, "leaf": 30}))
    with pytest.raises(
        ArtifactError, match=r"'world/jtr, all of it/0' was cached with other settings \(leaf 20, now 30"
    ):
        trained_stages(Trial(data_setup, 0, AnswerCache.open(cache_file)))


def test_cached_models_without_settings_are_accepted(few, no_ann_packages, cache_file, data_setup):
    dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
    before = AnswerCache.open(cache_file)
    without = AnswerCache(None, before.tensors, {name: {} for name in before.facts})
    assert (
        trained_stages(
            Trial(replace(data_setup, sizes={**data_setup.sizes, "ahead": 3}), 0, without)
        ).sasrec.model
        is not None
    )


def test_the_full_profile_without_its_data_is_refused():
    with pytest.raises(ConfigError, match="dtr-table2-indexes-mind: the full profile needs --data"):
        dtr_table2_indexes(None, "full", where="mind")


def test_an_unknown_index_is_refused():
    with pytest.raises(ConfigError, match="index must be one of"):
        dtr_table2_indexes(None, "quick", [0], kinds=["magic"])


def test_answers_of_all_users_are_padded_to_twenty():
    found = _answers(lambda some: torch.arange(230)[some, None] * torch.ones(1, 7, dtype=torch.int64), 230)
    assert found.shape == (230, TOP)
    assert found[:, :7].eq(torch.arange(230)[:, None]).all()
    assert (found[:, 7:] == -1).all()


def test_times_are_medians_of_alternating_requests(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(indexes.time, "perf_counter", lambda: clock[0])
    starts = {"short": [], "long": []}

    def way(name, seconds):
        def search(some):
            starts[name].append(some.start)
            clock[0] += seconds

        return search

    ways = {("short", 0.0): way("short", 1.0), ("long", 2.0): way("long", 3.0)}
    assert _times(ways, 12, silent, requests=10) == {("short", 0.0): 1.0, ("long", 2.0): 3.0}
    assert set(range(10)) <= set(starts["short"])
    assert starts["short"] == starts["long"]


def test_the_share_of_exact_items_ignores_padding():
    exact = torch.tensor([[1, 2, 3], [4, 5, -1]])
    assert _shared(exact, exact) == 1.0
    assert _shared(torch.tensor([[3, 9, 1], [-1, -1, -1]]), exact) == pytest.approx(2 / 5)


def test_a_whole_request_is_encoder_and_search_and_the_deep_tree_has_no_encoder():
    seconds = {("exact", 0.0): 2.0, ("ivf", 1.0): 1.0, ("jtr", 4.0): 6.0, (OWN, 0.0): 2.0, (TREE, 5.0): 20.0}
    ratios = _ratios({**seconds, ("encoder of sasrec", 0.0): 8.0, ("encoder of jtr", 0.0): 9.0})
    whole = {way: one for (way, metric, _), one in ratios.items() if metric == WHOLE}
    assert whole == {"exact": 1.0, "ivf": 0.9, "jtr": 1.5, OWN: 1.1, TREE: 2.0}
    alone = {way: one for (way, metric, _), one in ratios.items() if metric == TIME}
    assert (alone["ivf"], alone[TREE], alone["encoder of sasrec"]) == (0.5, 10.0, 4.0)


@pytest.mark.parametrize("kind", ["ivf-pq", "residual"])
def test_codes_without_exact_scores_find_less(kind):
    pytest.importorskip("faiss", reason="faiss is not installed")
    items, queries = grouped(n_queries=40)
    exact, _ = search(items, queries, 10)
    found = {
        way: _shared(_with_knobs(way, items, 0)[64.0].search(queries, 10)[0], exact)
        for way in ("ivf", kind, kind + CODES)
    }
    assert found[kind + CODES] < 0.95
    assert found[kind + CODES] < found[kind] <= found["ivf"] == 1.0


def test_the_widest_setting_decides_the_claims():
    rows = {("exact", "recall@20", 0.0): [0.2, 0.4]}
    for way, wide in (("hnsw", 0.96), ("jtr", 0.9), (TREE, 0.0)):
        for knob, share, recall in ((8.0, 0.5, 0.9), (16.0, wide, 0.27 if way == TREE else 0.3)):
            values = {SHARE: share, OWN_SHARE: share, "recall@20": recall, WHOLE: 1.5}
            rows |= {(way, metric, knob): [one, one] for metric, one in values.items()}
            rows[way, TIME, knob] = [knob, knob + 1]
    claims = {one.id: one for one in _claims(rows, ["hnsw"])}
    held = {name: (one.holds, round(one.estimate, 6)) for name, one in claims.items()}
    assert held == {
        "hnsw keeps what exact search finds": (True, 0.96),
        "jtr's beam keeps what exact search among its own vectors finds": (False, 0.9),
        "jtr, recall@20 over SASRec with exact search": (True, 1.0),
        f"{TREE}, recall@20 over SASRec with exact search": (False, 0.9),
    }
    note = claims["hnsw keeps what exact search finds"].note
    assert "16.50 times exact search's time for the search, 1.50 times for the whole request" in note


def test_every_index_has_a_known_knob():
    assert {"jtr", TREE} == set(BEAMS)
    assert all(list(values) == sorted(values) for _, values in ANN.values())
    assert {knob for knob, _ in ANN.values()} == {"", "ef", "nprobe"}
    assert {way.removesuffix(CODES) for way in ANN} == set(OPTIONAL)


def test_the_number_of_threads_is_restored(few, no_ann_packages, cache_file):
    torch.set_num_threads(2)
    try:
        dtr_table2_indexes(None, "quick", [0], cache_file=cache_file)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
