"""Systems of the two-time-scale tables."""

import pytest

from shortlist.lab.experiments.two_time_scale.cells import systems
from shortlist.lab.experiments.two_time_scale.cells.places import FULL, MOVIELENS, TENTH, UNIT, place_of
from shortlist.lab.experiments.two_time_scale.cells.systems import (
    ANCHORED,
    CCF,
    CCF_FEATURES,
    GRU,
    GRU_FEATURES,
    ONE_GRU,
    PAPER,
    PLAIN,
    PLUS,
    SHRINK,
    SYSTEMS,
    rate_of,
    trainer_of,
)
from shortlist.train.two_time_scale.recurrence import MOST_POSITIVES

TRAINED = [name for name, one in SYSTEMS.items() if one.rates]


@pytest.mark.parametrize("name", TRAINED)
def test_every_trained_system_has_the_width_and_patience_of_its_place(name):
    place = place_of(MOVIELENS)
    trainer = trainer_of(SYSTEMS[name], place)
    settings = trainer.settings()
    assert settings["width"] == place.budget.width
    assert settings["epochs"] == place.budget.epochs
    assert settings["patience"] == place.budget.patience
    assert settings["early_stop_metric"] == "ndcg@100"
    for key, value in SYSTEMS[name].settings.items():
        assert settings[key] == value


@pytest.mark.parametrize("name", [name for name, one in SYSTEMS.items() if one.rates and one.model != CCF])
def test_every_system_but_the_factorisation_has_a_softmax_over_all_items(name):
    own = SYSTEMS[name].settings.get("loss", "softmax")
    assert trainer_of(SYSTEMS[name], place_of(MOVIELENS)).settings()["loss"] == own
    assert own == "softmax" or "offers" in name


@pytest.mark.parametrize("name", [GRU, "sasrec-50", "sum-pooling", ANCHORED])
def test_systems_of_the_full_world_have_the_same_number_of_candidates(name):
    found = trainer_of(SYSTEMS[name], place_of(FULL)).settings()
    own = found["negatives"] + (MOST_POSITIVES if found["loss"] == "offers" else 0)
    assert (found["loss"] in ("offers", "sampled"), own) == (True, 1024)


def test_variants_have_the_learning_rate_of_the_nearest_system(monkeypatch):
    assert SYSTEMS["1-gru, frozen items"].tuned_as == SYSTEMS[GRU_FEATURES].tuned_as == ONE_GRU
    assert SYSTEMS["2ts plain, K=5"].tuned_as == PLAIN
    assert SYSTEMS["2ts anchored, K=0"].tuned_as == SYSTEMS["2ts swap"].tuned_as == ANCHORED
    assert SYSTEMS[PAPER].tuned_as == PAPER
    monkeypatch.setattr(systems, "CHOSEN", {UNIT: {CCF: 0.5}})
    for name in (CCF_FEATURES, "2ts anchored, features", "2ts anchored, offers, no logq"):
        assert (
            rate_of(SYSTEMS[name].first, place_of(UNIT)) == 0.5
        )  # with features or without a correction too


def test_worlds_count_items_that_are_taken_again():
    assert trainer_of(SYSTEMS[GRU], place_of(UNIT)).early_stop_metric == "ndcg@100+repeats"


def test_learning_rates_of_the_full_world_are_those_of_a_tenth(monkeypatch):
    monkeypatch.setattr(systems, "CHOSEN", {TENTH: {GRU: 0.5, CCF: 0.25}})
    assert rate_of(SYSTEMS[GRU], place_of(FULL)) == 0.5
    assert trainer_of(SYSTEMS[CCF], place_of(FULL)).table_learning_rate == 0.25
    assert rate_of(SYSTEMS[GRU], place_of(MOVIELENS)) == 1e-3
    assert trainer_of(SYSTEMS[GRU], place_of(MOVIELENS), rate=0.125).learning_rate == 0.125


def test_variants_share_the_recurrence_of_all_users_where_it_does_not_depend_on_them():
    shared = SYSTEMS[ONE_GRU].base
    for name in (
        ANCHORED,
        PLAIN,
        "2ts anchored, K=50",
        "2ts anchored, t*=100",
        "2-gru",
        "2ts plain, full",
        SHRINK,
    ):
        assert SYSTEMS[name].base == shared
    for name in (PAPER, "2ts swap", "2ts single-stage", "2ts anchored, prefix t*"):
        assert SYSTEMS[name].base is None
    assert SYSTEMS[PLUS].base != shared  # it reads new users' last items
    assert SYSTEMS["2ts anchored, frozen items"].base == SYSTEMS["1-gru, frozen items"].base != shared


def test_the_first_stage_has_the_features_and_correction_of_its_system():
    assert SYSTEMS[ANCHORED].first == SYSTEMS[CCF]
    assert SYSTEMS["2ts anchored, offers, no logq"].first.settings == {"correction": False}
    assert SYSTEMS["2ts anchored, features"].first.settings == {"features": True}
