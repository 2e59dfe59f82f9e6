"""Training without a recipe: what is saved, and logs that leave little to train on."""

import numpy as np
import pyarrow as pa
import pytest

import shortlist
from shortlist.data import Catalog, Dataset, Interactions, Vocabulary
from shortlist.data.membership import is_in
from shortlist.data.split import leave_last_out
from shortlist.grammar import leaves
from shortlist.pipeline import TYPES, load_recommender, parse_recipe
from shortlist.pipeline.batch.held_out import slates_of
from shortlist.pipeline.recipe_settings import with_settings
from shortlist.report import run_page
from shortlist.simulate import embedded, power_law, with_repeats
from shortlist.stages.ranking_features import REPEATS
from shortlist.train import train
from shortlist.train.auto import measured
from shortlist.train.auto import train as auto_training
from shortlist.train.auto.budget import Deadline
from shortlist.train.auto.estimates import Meter
from shortlist.train.auto.train import DECIDING, nothing_to_rank, parted, within
from shortlist.train.context import TrainContext
from shortlist.train.pipeline_trainer import PipelineTrainer
from shortlist.train.registry import TRAINERS
from tests.train.auto.test_choose import ITEMS, folds_of
from tests.train.logs import nothing

SECONDS = 1 / 60  # minutes
FAST = {"minutes": 3 * SECONDS}
SHORT = 0.01  # seconds that EASE takes, also where a slow machine measures more


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    out = tmp_path_factory.mktemp("auto") / "bundle"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deadline, "late", False)  # on a slow machine too
        patch.setattr(Meter, "ease", lambda _: SHORT)
        train("auto", embedded(0, "small"), out, **FAST)
    return out


def log(users: np.ndarray, items: np.ndarray, **columns: np.ndarray) -> Dataset:
    table = pa.table({"user": users, "item": items, **columns})
    named = {name: name for name in ("time", "weight") if name in columns}
    return shortlist.read(table, user="user", item="item", **named)


def random_log(n_users: int, n_items: int, length: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), length)
    items = (n_items * random.random(len(users)) ** 2 * 0.5 + n_items * 0.5 * (users % 2)).astype(int)
    return users, items


def test_items_of_the_history_are_recommended_where_users_take_them_again():
    dataset = with_repeats(power_law(0, "small"), 0.5)
    trained = train("auto", dataset, refit=False, **FAST)
    assert "repeat" in trained.recipe.stages
    (ranker,) = [stage for stage in leaves(trained.pipeline) if stage.title == "rank"]
    assert set(REPEATS) <= set(ranker.features.extras)
    requests = dataset.split().valid
    slates = slates_of(trained.pipeline, requests, 20)
    history = requests.query(width=int(requests.history_lengths().max())).history
    assert is_in(slates, history).float().mean() > 0.1


def test_bundle_records_the_plan_and_slates_of_single_models(bundle):
    saved = load_recommender(bundle)
    report = saved.about.plan
    assert report is not None
    assert report.verdict
    assert {"ease", "item_knn", "last_click"} <= {one.name for one in report.compared}
    assert report.requests == saved.about.measured["valid"].users
    assert {"ease", "item-knn"} <= set(saved.baselines["test"])  # as an evaluation calls them
    single = {one.name for one in report.compared}
    assert len(saved.baselines["test"]) == len(
        single - {"last_click", "popular"}
    )  # an evaluation counts these
    assert saved.about.refit is not None
    assert saved.recommend(shortlist.Request(user=saved.users.id(0))).items.shape[1] == 20


def test_card_says_what_was_saved_and_why(bundle):
    assert load_recommender(bundle).about.plan.verdict in (bundle / "README.md").read_text()


def test_saved_recipe_trains_again_without_dropped_nominators(bundle):
    saved = load_recommender(bundle)
    assert not set(saved.recipe.stages) & set(saved.about.plan.dropped)
    again = train(saved.recipe, embedded(0, "small"), refit=False)
    assert repr(again.pipeline) == repr(saved.as_measured().pipeline)


def test_pipeline_is_not_saved_where_a_single_model_is_not_below(monkeypatch):
    monkeypatch.setattr(auto_training, "winner", lambda report: "item_knn")
    monkeypatch.setattr(Deadline, "late", False)
    saved = train("auto", embedded(0, "small"), refit=False, **FAST)
    assert repr(saved.pipeline) == "item_knn % 20"
    assert set(saved.recipe.stages) == {"item_knn"}
    assert not saved.pipeline.nominators[0].score_pool
    recall = next(one.recall for one in saved.about.plan.compared if one.name == "item_knn")
    assert saved.about.measured["valid"].metrics["recall@20"].mean == pytest.approx(recall)


def test_single_model_is_fitted_again_on_all_events(monkeypatch):
    monkeypatch.setattr(auto_training, "winner", lambda report: "popular")
    saved = train("auto", embedded(0, "small"), **FAST)
    assert saved.about.refit is not None
    assert saved.about.refit.events == len(embedded(0, "small").events)


def test_settings_change_the_plan():
    saved = train("auto", embedded(0, "small"), refit=False, settings={"train.requests": 120}, **FAST)
    assert saved.about.out_of_fold.requests == 120 or len(saved.recipe.stages) == 1


def test_without_time_nothing_is_dropped_and_no_further_model_is_compared(monkeypatch):
    monkeypatch.setattr(Deadline, "late", True)
    monkeypatch.setattr(Meter, "ease", lambda _: SHORT)
    saved = train("auto", embedded(0, "small"), refit=False, **FAST)
    plan = saved.about.plan
    assert plan.dropped == {}
    assert "no time was left" in plan.left_out["choice of nominators"]
    assert "not compared: " in plan.verdict
    assert "no time was left" in plan.left_out["item_knn"]
    assert plan.verdict


LIMITED = """name = "x"
pipeline = "sasrec % 20 >> rank % 20"
[stages.sasrec]
type = "sasrec"
[stages.sasrec.train]
minutes = 1.0
[stages.rank]
type = "feature-ranker"
[stages.rank.train]
minutes = 0.4
"""


def test_time_limits_of_later_fits_shrink_to_what_is_left():
    recipe = parse_recipe(LIMITED, "x")
    assert within(recipe, recipe, 120.0, refit=True) is recipe  # 1.2 + 2 * 0.4 minutes at most
    shorter = within(recipe, recipe, 60.0, refit=True)
    assert shorter.stages["sasrec"].train["minutes"] == 0.5
    assert shorter.stages["rank"].train["minutes"] == 0.2
    assert within(recipe, recipe, 0.0, refit=True).stages["rank"].train["minutes"] == 0.01


@pytest.mark.parametrize("given", [0, 2.0])
def test_time_limits_of_the_user_do_not_shrink(given):
    planned = parse_recipe(LIMITED, "x")
    recipe = with_settings(planned, {"stages.sasrec.train.minutes": given})
    shorter = within(recipe, planned, 10.0, refit=True)
    assert shorter.stages["sasrec"].train["minutes"] == given
    assert shorter.stages["rank"].train["minutes"] < 0.4


def test_requests_that_decide_are_not_those_of_the_training_where_there_are_enough():
    events = Interactions.of(np.repeat(np.arange(2 * DECIDING), 3), np.arange(6 * DECIDING) % 7)
    valid = leave_last_out(events).valid
    some, rows = parted(valid, 0)
    assert len(some) == len(rows) == DECIDING
    assert not set(some.users) & set(valid.users[rows])
    few = valid.take(slice(0, 2 * DECIDING - 1))
    same, all_rows = parted(few, 0)
    assert same is few
    assert len(all_rows) == len(few)


def test_log_without_times():
    saved = train("auto", log(*random_log(150, 80, 8)), **FAST)
    assert "no times" in saved.about.plan.left_out["trending"]


def test_one_event_per_user_gives_popular_items():
    saved = train("auto", log(np.arange(60), np.arange(60) % 7), **FAST)
    assert repr(saved.pipeline) == "popular % 20"
    assert "no user has two training events" in saved.about.plan.left_out["ease"]
    assert "popular is saved: one nominator is all there is" in saved.about.plan.verdict


def test_catalogue_of_50_items():
    saved = train("auto", log(*random_log(200, 50, 7)), **FAST)
    assert saved.recommend(shortlist.Request(user=0)).items.shape[1] == 20


def test_ranker_needs_a_retrieved_target():
    recipe = parse_recipe(LIMITED, "x")
    work = PipelineTrainer.of(recipe, TYPES, TRAINERS)
    context = TrainContext(nothing(2, ITEMS), Catalog.bare(Vocabulary.of(list(range(ITEMS)))))
    assert nothing_to_rank(work, folds_of("left", "noise"), context) is None
    assert "no target of 2,000 training requests" in nothing_to_rank(work, folds_of("noise"), context)
    original = with_settings(recipe, {"stages.rank.train.mode": "original"})
    work = PipelineTrainer.of(original, TYPES, TRAINERS)
    assert nothing_to_rank(work, folds_of("noise"), context) is None


def test_without_retrieved_targets_ranks_are_fused(monkeypatch):
    monkeypatch.setattr(auto_training, "nothing_to_rank", lambda *_: "no target was retrieved")
    saved = train("auto", embedded(0, "small"), **FAST)
    assert saved.about.plan.left_out["rank"] == "no target was retrieved; ranks are fused"
    assert "rank" not in saved.recipe.stages


def test_few_users_fuse_ranks_without_a_ranker():
    saved = train("auto", log(*random_log(12, 30, 6)), **FAST)
    assert "too few" in saved.about.plan.left_out["rank"]


def test_only_new_users_in_the_test_part():
    users, items = random_log(300, 60, 6)
    times = (
        users * 1000 + np.tile(np.arange(6), 300)
    ) * 60_000 + 1_600_000_000_000  # one user after the other
    data = log(users, items, time=times)
    saved = train("auto", data, protocol="global-time", **FAST)
    plan = saved.about.plan
    assert plan.verdict
    assert "training requests are too few" in plan.left_out["rank"]
    assert {"last_click", "trending", "popular"} <= {one.name for one in plan.compared}
    slate = saved.recommend(shortlist.Request(history=[]))
    assert bool((slate.items >= 0).all())


def test_log_with_weights():
    users, items = random_log(150, 60, 7)
    weights = np.random.default_rng(1).integers(1, 6, len(users)).astype(float)
    assert train("auto", log(users, items, weight=weights), **FAST).about.plan is not None


def test_large_catalogue_with_few_events():
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(400), 5)
    items = random.integers(0, 40_000, len(users))
    items[:40_000:4] = random.integers(0, 50, len(items[:40_000:4]))
    saved = train("auto", log(users, items), **FAST)
    assert saved.about.plan.verdict


def test_report_page_lists_the_plan(bundle):
    saved = load_recommender(bundle)
    page = run_page(shortlist.evaluate(saved, embedded(0, "small")))
    assert "left out" in page
    assert "is saved" in page


def test_more_requests_than_can_be_measured_are_sampled_and_evaluated_alike(monkeypatch):
    monkeypatch.setattr(measured, "LEAST", 8)
    monkeypatch.setattr(measured, "SHARE", 0.0)
    world = log(*random_log(150, 40, 6))
    saved = train("auto", world, refit=False, **FAST)
    assert saved.about.split["requests"] == 8
    assert {part: one.users for part, one in saved.about.measured.items()} == {"valid": 8, "test": 8}
    assert (
        "8 random ones of each part of 150 validation and 150 test" in saved.about.plan.left_out["requests"]
    )
    found = shortlist.evaluate(saved, world, baselines="counts")
    assert found.users == 8
    assert found.metrics["pipeline"].metrics["recall@20"] == saved.about.measured["test"].metrics["recall@20"]
