"""Recommenders: asked by ids, answering in ids and titles, the same after saving and loading."""

import json
import math
from dataclasses import replace

import pyarrow as pa
import pytest
import torch

from shortlist.artifact import Lineage, load, save
from shortlist.artifact.as_json import as_json
from shortlist.data import Catalog, Vocabulary
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import Pipeline, as_pipeline
from shortlist.pipeline import Optional, load_recommender, save_recommender
from shortlist.pipeline.recommender import Request, resized, slate_size
from shortlist.stages import Explore
from tests.worlds import (
    Last,
    RandomFilter,
    RandomScorer,
    listed,
    query_of,
    run_checked,
    tiny,
    tiny_recommender,
)

REQUESTS = [
    Request(user="a"),
    Request(user="c"),
    Request(user="nobody"),
    Request(history=["i1", "i2", "unknown item"]),
    Request(user="b", history=["i30"], k=3, exclude=["i4"], seed=7),
]


@pytest.fixture(scope="module")
def recommender():
    return tiny_recommender()


def ids(recommender, request):
    slate = recommender.recommend(request)
    slate.trace.check()
    return [entry.item_id for entry in recommender.recommendations(slate)]


def test_saved_recommender_gives_the_same_slates(recommender, tmp_path):
    save_recommender(recommender, tmp_path / "r", Lineage(seed=3))
    back = load_recommender(tmp_path / "r")
    assert repr(back.pipeline) == repr(recommender.pipeline)
    for request in REQUESTS:
        one, other = (system.recommendations(system.recommend(request)) for system in (recommender, back))
        assert one == other
    assert back.about == replace(recommender.about, version=load(tmp_path / "r").version)


def test_same_recommender_gives_the_same_bytes(recommender, tmp_path):
    one = save_recommender(recommender, tmp_path / "one", Lineage())
    other = save_recommender(recommender, tmp_path / "other", Lineage())
    assert one.version == other.version
    assert (tmp_path / "one/manifest.json").read_bytes() == (tmp_path / "other/manifest.json").read_bytes()


def test_unknown_user_is_answered_like_one_without_history(recommender):
    assert (
        ids(recommender, Request(user="nobody"))
        == ids(recommender, Request())
        == ids(recommender, Request(user="c"))
    )


def test_unknown_items_of_a_history_are_ignored(recommender):
    assert ids(recommender, Request(history=["i1", "?", "i2"])) == ids(
        recommender, Request(history=["i1", "i2"])
    )
    assert ids(recommender, Request(history=["?"])) == ids(recommender, Request())


def test_given_history_replaces_the_stored_one(recommender):
    assert recommender.history(Request(user="a")) == [1, 2, 3]
    assert recommender.history(Request(user="a", history=["i9"])) == [9]
    assert recommender.history(Request(user="a", history=[])) == []
    assert ids(recommender, Request(user="a", history=["i7", "i9"])) == ids(recommender, Request(user="b"))


def test_seen_and_excluded_items_are_not_shown(recommender):
    shown = ids(recommender, Request(user="a"))
    assert not {"i1", "i2", "i3"} & set(shown)
    again = ids(recommender, Request(user="a", exclude=[shown[0], "unknown item"]))
    assert shown[0] not in again
    assert len(again) == len(shown)
    assert recommender.explain(Request(user="a", exclude=[shown[0]]), shown[0]).dropped_at == "excluded"


def test_pipeline_without_filter_still_excludes(recommender):
    bare = replace(recommender, pipeline=as_pipeline(Pipeline(recommender.pipeline.stages[:1]) % 5))
    shown = ids(bare, Request(user="a"))
    assert shown[0] not in ids(bare, Request(user="a", exclude=[shown[0]]))


def test_seed_beyond_64_bits_is_refused():
    with pytest.raises(ConfigError, match="64 bits"):
        Request(seed=2**63)


def test_batch_gives_the_slates_of_single_requests(recommender):
    requests = [replace(request, k=None) for request in REQUESTS]
    pipeline = recommender.prepared(Request(exclude=["i4"]))
    slate = run_checked(pipeline, recommender.query(requests))
    for row, request in enumerate(requests):
        assert [entry.item_id for entry in recommender.recommendations(slate, row)] == ids(
            recommender, request
        )


def test_time_of_a_request_defaults_to_the_end_of_the_log(recommender):
    query = recommender.query([Request(), Request(time=5)])
    assert query.time.tolist() == [1000, 5]


def test_recommendation_has_title_rank_and_nominators(recommender):
    first, *_ = recommender.recommendations(recommender.recommend(Request(user="a")))
    assert first.title == first.item_id.replace("i", "Title ")
    assert (first.rank, first.propensity) == (1, None)
    assert set(first.nominators) <= {part.title for part in recommender.pipeline.nominators}
    assert first.nominators


def test_sampled_slate_records_propensities(recommender):
    sampling = replace(recommender, pipeline=recommender.pipeline >> Explore() % 3)
    entries = sampling.recommendations(sampling.recommend(Request(user="a", seed=4)))
    assert all(0 < entry.propensity <= 1 for entry in entries)


def test_nan_score_is_reported_as_none(recommender):
    class Nan(RandomScorer):
        def score(self, query, found):
            return torch.full(found.shape, math.nan)

    broken = replace(recommender, pipeline=listed("a", [1, 2]) >> Nan())
    entries = broken.recommendations(broken.recommend(Request()))
    assert [entry.score for entry in entries] == [None, None]
    json.dumps(as_json(entries), allow_nan=False)


def test_unknown_item_to_explain_is_an_error(recommender):
    with pytest.raises(ConfigError, match="item 'i99' is not in the catalogue of 40 items"):
        recommender.explain(Request(user="a"), "i99")
    assert recommender.item_row("i3") == 3


def test_explain_by_id_follows_the_item(recommender):
    shown = ids(recommender, Request(user="a"))
    assert recommender.explain(Request(user="a"), shown[1]).position == 2
    assert recommender.explain(Request(user="a"), "i13").verdict in ("removed", "not nominated")


@pytest.mark.parametrize("k", [1, 3, 5, 8])
def test_slate_has_the_requested_size(recommender, k):
    assert len(ids(recommender, Request(user="a", k=k))) == k


POOL = listed("a", list(range(12)))


@pytest.mark.parametrize(
    "pipeline",
    [
        POOL,
        POOL >> RandomScorer(),
        POOL >> RandomScorer() % 9,
        POOL >> Explore() % 9,
        POOL >> RandomFilter(),
        POOL >> Optional(Explore()) % 9,
        POOL >> Optional(RandomScorer() % 9),
    ],
    ids=repr,
)
def test_every_pipeline_can_be_resized(pipeline):
    pipeline = as_pipeline(pipeline)
    assert resized(pipeline, None) is pipeline
    other = resized(pipeline, 4)
    assert slate_size(other) == 4
    assert (run_checked(other, query_of()).items >= 0).sum() == 4
    with pytest.raises(ConfigError, match="k must be 1 or more, got 0"):
        resized(pipeline, 0)


def test_slate_size_is_that_of_the_last_stage():
    assert slate_size(tiny()) == 5
    assert slate_size(as_pipeline(POOL)) is None
    assert slate_size(POOL >> Optional(Last() % 7)) == 7


def test_numeric_ids_can_be_given_as_text(recommender):
    numbered = replace(recommender, users=Vocabulary.of([10, 20, 30]))
    assert numbered.history(Request(user="10")) == numbered.history(Request(user=10)) == [1, 2, 3]


def test_extra_files_are_saved_with_the_bundle(recommender, tmp_path):
    trained = save_recommender(recommender, tmp_path / "r", Lineage(), extra={"card.md": "# Card"})
    assert trained.text("card.md") == "# Card"
    assert "pipeline.toml" in trained
    assert "recipe.toml" not in trained


def test_histories_of_other_users_are_refused(recommender, tmp_path):
    fewer = replace(recommender, users=Vocabulary.of(["a", "b"]))
    save_recommender(fewer, tmp_path / "r", Lineage())
    with pytest.raises(ArtifactError, match=r"tensor 'starts': expected the shape \[3\], got \[4\]"):
        load_recommender(tmp_path / "r")


def test_artifact_of_another_kind_is_refused(tmp_path):
    save(tmp_path / "d", "dataset", {"a.txt": "x"}, Lineage())
    with pytest.raises(ArtifactError, match="expected kind 'recommender', got 'dataset'"):
        load_recommender(tmp_path / "d")


def test_request_has_defaults():
    assert (Request().user, Request().k, Request().exclude) == (None, None, ())


def test_cut_inside_a_guard_is_resized():
    guarded = as_pipeline(listed("a", range(9)) >> Optional(RandomScorer(name="rank") % 3, name="kept"))
    slate = run_checked(resized(guarded, 6), query_of([20]))
    assert int(slate.candidates.valid.sum()) == 6
    open_ended = as_pipeline(listed("a", range(9)) >> Optional(RandomScorer(name="rank"), name="kept"))
    assert int(run_checked(resized(open_ended, 4), query_of([20])).candidates.valid.sum()) == 4


def test_facts_of_another_form_are_refused(recommender, tmp_path):
    about = {**as_json(recommender.about), "colour": "blue"}
    parts = {name: load(saved := _saved(recommender, tmp_path)).text(name) for name in ("pipeline.toml",)}
    del about["version"]
    rest = {name: (saved / name).read_bytes() for name in load(saved).manifest["files"] if name not in parts}
    save(tmp_path / "odd", "recommender", parts | rest, Lineage(), about)
    with pytest.raises(ArtifactError, match="its facts are not those of a bundle"):
        load_recommender(tmp_path / "odd")


def _saved(recommender, tmp_path):
    save_recommender(recommender, tmp_path / "whole", Lineage())
    return tmp_path / "whole"


def test_recommendation_lists_every_category_also_after_saving(recommender, tmp_path):
    count = len(recommender.catalog)
    lists = [["war", "comedy"] if row % 2 else None for row in range(count)]
    table = pa.table({"title": [f"t{row}" for row in range(count)], "category": lists})
    several = replace(recommender, catalog=Catalog(recommender.catalog.vocabulary, table))
    save_recommender(several, tmp_path / "r", Lineage())
    back = load_recommender(tmp_path / "r")
    assert pa.types.is_list(back.catalog.table["category"].type)
    slate = back.recommendations(back.recommend(Request(user="a")))
    rows = [back.item_row(one.item_id) for one in slate]
    assert [one.categories for one in slate] == [tuple(lists[row] or ()) for row in rows]
    assert {one.category for one in slate} == {"war, comedy", ""}
    assert [one["categories"] for one in as_json(slate)] == [lists[row] or [] for row in rows]
    assert "category" not in as_json(slate)[0]
