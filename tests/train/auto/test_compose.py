"""The rules of a plan, with given seconds instead of measured ones."""

from dataclasses import dataclass, replace

import pytest

from shortlist.simulate import embedded
from shortlist.train.auto.compose import ENOUGH_REQUESTS, FOLDS, MIN_REQUESTS, SURE, Composer
from shortlist.train.auto.composed import SLATE, Composed
from shortlist.train.auto.estimates import RankerSeconds
from shortlist.train.auto.large import TreeSeconds
from shortlist.train.auto.log_profile import LogProfile
from shortlist.train.auto.measured import LEAST, MOST
from shortlist.train.auto.models import MANY_STEPS, MAX_STATE_EPOCHS, MIN_STATE_EPOCHS, STATE_SHARE
from shortlist.train.auto.parts import LARGE
from shortlist.train.auto.sizes import SHORT
from shortlist.train.models.counting.ease import MAX_ITEMS
from shortlist.train.rankers.training_data.out_of_fold import folds_of, out_of_fold_data

USUAL = LogProfile(
    items=5_000,
    events=100_000,
    histories=10_000,
    length=40,
    timed=True,
    protocol="leave-last-out",
    repeats=0.0,
    rankable=10_000,
    validation=1_000,
    test=1_000,
    categories=1,
    columns=(),
    gpu=False,
    cores=2,
    memory=16_000_000_000,
    lightgbm=True,
)

NO_TREE = TreeSeconds(1e9, 1e9)


@dataclass(frozen=True)
class GivenSeconds:
    """Seconds of one fit, of one epoch by loss, and of one request of a ranker."""

    fit: float = 1.0
    softmax: float = 1.0
    sampled: float = 0.5
    towers: float = 0.1
    request: float = 0.001
    gru4rec: float = 1e9
    lightgcn: float = 1e9
    states: float = 1e9
    accepted: bool = True
    tree: TreeSeconds = NO_TREE

    def accepts(self, kind: str, loss: str = "", **size: int) -> bool:
        return self.accepted

    def ease(self) -> float:
        return self.fit

    def neighbours(self, kind: str) -> float:
        return self.fit

    def counts(self, kind: str) -> float:
        return 0.01

    def epoch(self, kind: str, loss: str = "softmax", **size: int) -> float:
        own = {"two-tower": self.towers, "gru4rec": self.gru4rec}
        return own[kind] if kind in own else getattr(self, loss)

    def once(self, key: object, work: object) -> TreeSeconds:
        return self.tree

    def steps(self, kind: str) -> int:
        return 10

    def whole_epoch(self, kind: str) -> float:
        return {"lightgcn": self.lightgcn, "ccf": 0.0}.get(kind, self.states)

    def ranker(self, kind: str) -> RankerSeconds:
        return RankerSeconds(self.request / 10, self.request, self.request / 100)


@dataclass(frozen=True)
class LongHistories(GivenSeconds):
    """The time of an epoch grows with the length of the histories."""

    def epoch(self, kind: str, loss: str = "softmax", **size: int) -> float:
        return super().epoch(kind, loss) * size.get("max_history", SHORT) / SHORT


def composed(seconds: float = 600.0, meter: GivenSeconds = GivenSeconds(), **changes: object) -> Composed:  # noqa: B008
    return Composer(replace(USUAL, **changes), meter, seconds).composed()  # type: ignore[arg-type]


def test_usual_log_gets_all_cheap_nominators_a_sequence_model_ease_and_a_ranker():
    made = composed()
    assert list(made.limits) == ["sasrec", "ease", "towers", "covisit", "last_click", "popular"]
    assert made.expression.endswith(f">> rank % {SLATE}")
    assert made.stages["sasrec"].train["loss"] == "softmax"
    assert "left out" not in " ".join(made.left_out.values())


def test_every_stage_has_a_reason():
    made = composed(categories=12, protocol="global-time")
    assert {f"stages.{name}.type" for name in made.stages} <= set(made.reasons)
    assert not set(made.stages) & set(made.left_out)


@pytest.mark.parametrize("seconds", [5.0, 60.0, 600.0, 6000.0])
@pytest.mark.parametrize("fit", [0.1, 30.0, 1000.0])
@pytest.mark.parametrize("epoch", [0.2, 20.0, 3000.0])
def test_planned_seconds_stay_within_the_budget(seconds: float, fit: float, epoch: float):
    made = composed(seconds, GivenSeconds(fit, epoch, epoch / 2, epoch, 0.01), categories=5)
    assert sum(made.seconds.values()) <= seconds


def test_sampled_loss_where_few_epochs_of_the_exact_one_fit():
    made = composed(meter=GivenSeconds(softmax=100.0, sampled=5.0))
    assert made.stages["sasrec"].train["loss"] == "sampled"
    assert "exact loss" in made.reasons["stages.sasrec.train.loss"]


@dataclass(frozen=True)
class LongEpochs(GivenSeconds):
    """Every epoch has many steps."""

    def steps(self, kind: str) -> int:
        return MANY_STEPS


def test_fewer_epochs_are_enough_where_each_has_many_steps():
    slow = {"softmax": 14.0, "sampled": 14.0}
    assert "20 epochs would take" in composed(meter=GivenSeconds(**slow)).left_out["sasrec"]
    assert composed(meter=LongEpochs(**slow)).stages["sasrec"].train["epochs"] < 20


def test_exact_loss_that_the_trainer_refuses_is_not_measured():
    made = composed(items=5_000, meter=GivenSeconds(softmax=0.01, accepted=False), gpu=True)
    assert made.stages["sasrec"].train["loss"] == "sampled"
    assert "too many for the exact loss on a GPU" in made.reasons["stages.sasrec.train.loss"]


@dataclass(frozen=True)
class RefusesLongHistories(GivenSeconds):
    """The trainer refuses the exact loss with long histories."""

    def accepts(self, kind: str, loss: str = "", **size: int) -> bool:
        return size["max_history"] <= SHORT

    def epoch(self, kind: str, loss: str = "softmax", **size: int) -> float:
        assert loss == "sampled" or kind == "two-tower" or self.accepts(kind, loss, **size)
        return super().epoch(kind, loss)


def test_exact_loss_is_not_measured_where_long_histories_make_too_many_logits():
    made = composed(items=60_000, length=200, meter=RefusesLongHistories())
    assert made.stages["sasrec"].train["loss"] == "sampled"
    assert made.stages["sasrec"].train["max_history"] == 200
    assert "too many for the exact loss" in made.reasons["stages.sasrec.train.loss"]


def test_second_sequence_model_where_the_first_one_has_all_its_epochs():
    meter = GivenSeconds(gru4rec=1.0)
    made = composed(meter=meter)
    assert list(made.limits)[:2] == ["sasrec", "gru4rec"]
    assert made.stages["sasrec"].train["epochs"] == 60
    short = composed(150.0, meter=meter)
    assert short.stages["sasrec"].train["epochs"] < 60
    assert "raise --minutes" in short.left_out["gru4rec"]


def test_items_of_the_history_where_users_take_items_again():
    made = composed(repeats=0.3)
    assert made.limits["repeat"] == 100
    assert made.reasons["stages.repeat.type"] == (
        "30.0% of the training events are of an item that the user had before"
    )
    assert "only repeat nominates items of the history" in made.reasons["pipeline"]
    rarely = composed(repeats=0.01)
    assert "repeat" not in rarely.limits
    assert rarely.left_out["repeat"].endswith("less than 2%")


def test_graph_model_only_where_users_ask_after_one_cut_in_time():
    meter = GivenSeconds(lightgcn=1.0)
    assert "lightgcn" in composed(meter=meter, protocol="global-time").limits
    assert "under leave-last-out" in composed(meter=meter).left_out["lightgcn"]
    assert "20 epochs" in composed(protocol="global-time").left_out["lightgcn"]


def test_two_time_scale_users_only_where_known_users_ask_again():
    meter = GivenSeconds(states=1.0)
    made = composed(meter=meter, protocol="global-time")
    assert list(made.limits)[:2] == ["sasrec", "two_time_scale"]
    train = made.stages["two_time_scale"].train
    assert train["epochs"] == train["first_epochs"] == MAX_STATE_EPOCHS
    assert "about 1.3 s" in made.reasons["stages.two_time_scale.train.epochs"]
    assert made.seconds["two_time_scale"] <= STATE_SHARE * 600
    assert "under leave-last-out" in composed(meter=meter).left_out["two_time_scale"]


@pytest.mark.parametrize(
    ("changes", "meter", "why"),
    [
        ({}, GivenSeconds(states=100.0), f"{MIN_STATE_EPOCHS} epochs would take about"),
        ({"validation": 0}, GivenSeconds(states=1.0), "do not follow the training events"),
        ({"rankable": 10}, GivenSeconds(states=1.0), "10 training requests are too few"),
        ({}, GivenSeconds(states=1.0, accepted=False), "do not fit into memory"),
    ],
)
def test_two_time_scale_users_are_left_out_with_the_reason(changes, meter, why):
    made = composed(meter=meter, protocol="global-time", **changes)
    assert "two_time_scale" not in made.limits
    assert why in made.left_out["two_time_scale"]


def test_sequence_model_that_does_not_fit_is_left_out_with_its_estimate():
    made = composed(60.0, GivenSeconds(softmax=100.0, sampled=90.0))
    assert "sasrec" not in made.stages
    assert "raise --minutes" in made.left_out["sasrec"]
    assert "20 epochs would take about" in made.left_out["sasrec"]


@pytest.mark.parametrize(
    ("changes", "meter", "why"),
    [
        ({"items": MAX_ITEMS + 1}, GivenSeconds(), f"at most {MAX_ITEMS:,}"),
        ({"memory": 100_000_000}, GivenSeconds(), "of memory"),
    ],
)
def test_item_neighbours_replace_ease_where_it_is_too_large(changes, meter, why):
    made = composed(meter=meter, **changes)
    assert why in made.left_out["ease"]
    assert made.stages["item_knn"].type == "item-knn"


def test_slow_closed_forms_are_left_out():
    made = composed(60.0, GivenSeconds(fit=1000.0))
    assert {"ease", "item_knn", "covisit"} <= set(made.left_out)
    assert "last_click" in made.stages


def test_users_with_one_event_get_popular_items_only():
    made = composed(rankable=0, histories=0)
    assert made.expression == f"popular % {SLATE}"
    assert "no user has two training events" in made.left_out["rank"]


def test_without_training_requests_counts_and_closed_forms_are_fused():
    made = composed(rankable=0, protocol="global-time")
    assert list(made.limits) == ["ease", "covisit", "last_click", "trending", "popular"]
    assert made.expression.endswith(f") % {SLATE}")
    for name in ("rank", "sasrec"):
        assert "no user has training events before and after a cut" in made.left_out[name]


def test_few_requests_fuse_ranks_without_a_ranker():
    made = composed(rankable=MIN_REQUESTS - 1)
    assert "too few" in made.left_out["rank"]
    assert made.expression.endswith(f") % {SLATE}")
    made.recipe()


def test_trending_needs_times_and_a_split_by_time():
    assert "no times" in composed(timed=False, protocol="global-time").left_out["trending"]
    assert "leave-last-out" in composed().left_out["trending"]
    assert composed(protocol="global-time").stages["trending"].settings["days"] == 14.0


def test_two_towers_where_their_epochs_fit_into_their_share():
    assert "12 categories" in composed(categories=12).reasons["stages.towers.type"]
    assert "10 epochs would take" in composed(meter=GivenSeconds(towers=100.0)).left_out["towers"]


def test_wide_models_for_many_events_on_a_gpu():
    made = composed(events=1_000_000, gpu=True)
    assert made.stages["sasrec"].train["width"] == 256
    assert "width" not in composed(gpu=True).stages["sasrec"].train
    assert "width" not in composed(events=1_000_000).stages["sasrec"].train


def test_long_histories_are_read_where_enough_epochs_fit():
    made = composed(length=180)
    assert made.stages["sasrec"].train["max_history"] == 180
    slow = LongHistories(softmax=4.0, sampled=4.0)
    short = composed(length=180, meter=slow)
    assert short.stages["sasrec"].train["max_history"] == SHORT
    assert "of 180 items" in short.reasons["stages.sasrec.train.max_history"]


def test_small_catalogue_has_small_limits_that_fill_a_slate():
    made = composed(items=50)
    assert set(made.limits.values()) == {SLATE}


def test_large_catalogue_has_larger_limits():
    made = composed(items=5 * LARGE)
    assert made.limits["popular"] == 40
    assert made.stages["sasrec"].train["loss"] == "sampled"


def test_more_requests_than_the_budget_can_answer_are_sampled_and_said():
    slow = GivenSeconds(request=0.15)
    made = composed(meter=slow, validation=180_000, test=170_000)
    assert made.measured == LEAST
    assert made.left_out["requests"].startswith(
        "10,000 random ones of each part of 180,000 validation and 170,000"
    )
    assert composed(1200.0, meter=slow, validation=180_000, test=170_000).measured == 2 * LEAST
    assert composed(60_000.0, meter=slow, validation=180_000, test=170_000).measured == MOST
    few = composed(meter=slow, validation=LEAST, test=5)
    assert few.measured is None
    assert "requests" not in few.left_out


def test_network_ranks_without_trees_where_lightgbm_is_missing():
    made = composed(lightgbm=False)
    assert made.stages["rank"].type == "blend-ranker"
    assert "LightGBM is not installed" in made.reasons["stages.rank.type"]


def test_requests_of_the_ranker_follow_the_budget():
    made = composed(60.0, GivenSeconds(request=0.03))
    assert made.training["requests"] == 1250  # 9 s a fit: half of them for one pass over the requests
    assert made.stages["rank"].train["minutes"] == pytest.approx(0.075, abs=0.006)
    assert "in time" in made.reasons["train.requests"]
    assert composed(600.0).training["requests"] == USUAL.rankable
    assert "rank" in composed(6.0, GivenSeconds(request=1.0)).left_out


def test_requests_come_before_epochs_of_the_ranker():
    made = composed(600.0, GivenSeconds(request=0.02), rankable=50_000)
    assert made.training["requests"] >= ENOUGH_REQUESTS * 0.99


def test_half_histories_use_one_or_two_of_four_folds():
    made = composed(protocol="half-history")
    assert made.training == {"folds": FOLDS, "requests": int(SURE * USUAL.rankable / 2)}
    assert "2 folds are enough" in made.reasons["train.folds"]
    large = composed(protocol="half-history", rankable=FOLDS * ENOUGH_REQUESTS)
    assert large.training["requests"] == int(SURE * ENOUGH_REQUESTS)
    assert "one fold is enough" in large.reasons["train.folds"]


def test_one_fold_is_used_where_a_second_leaves_no_time_for_a_model():
    slow = GivenSeconds(softmax=12.0, sampled=9.6)
    made = composed(protocol="half-history", meter=slow)
    assert "sasrec" in made.stages
    assert made.training["requests"] == int(SURE * USUAL.rankable / FOLDS)


def test_gru4rec_where_sasrec_does_not_fit():
    made = composed(60.0, GivenSeconds(softmax=100.0, sampled=90.0, gru4rec=0.5))
    assert "raise --minutes" in made.left_out["sasrec"]
    assert made.stages["gru4rec"].train["ahead"] == 0
    assert made.expression.startswith("gru4rec % 100")


def test_sequence_model_without_validation_runs_few_epochs():
    assert composed(validation=0).stages["sasrec"].train["epochs"] == 10


def test_few_histories_have_no_sequence_model():
    assert "too few" in composed(rankable=49).left_out["sasrec"]


def test_planned_folds_have_enough_requests():
    split = embedded(0, "small").split()
    rankable = len(out_of_fold_data(split.train, split.settings, 0, 20_000, several=True).every)
    made = composed(protocol="half-history", rankable=rankable)
    for seed in range(5):
        data = out_of_fold_data(split.train, split.settings, seed, made.training["requests"], several=True)
        assert len(list(folds_of(data, FOLDS, seed))) <= 2
