"""Cells: the same settings for all systems, and per-user metrics of trained ones."""

import numpy as np
import pytest
import torch

from shortlist.errors import ConfigError
from shortlist.lab.experiments.models import cells
from shortlist.lab.experiments.models.cells import (
    AUTO,
    COUNTED,
    METRICS,
    MODELS,
    NEXT,
    Cell,
    Setup,
    cells_of,
    classic_for,
    dataset_of,
    run_cell,
    seeds_of,
    systems_of,
    trainer_for,
)
from shortlist.metrics.ranking import METRICS as RANKING
from shortlist.pipeline import shipped_recipe
from shortlist.pipeline.shipped import shipped_names
from shortlist.train import train

DEMO, SHOP = Setup("demo", "half-history"), Setup("amazon-like", "leave-last-out")


def test_every_single_model_recipe_is_a_system():
    models = {
        name
        for name in shipped_names()
        if len(shipped_recipe(name).stages) == 2 and shipped_recipe(name).stages.keys() & {"seen"}
    }
    trees = {"dtr-t", "dtr-t-rl", "dtr-u", "jtm", "jtr", "otm", "plt", "tdm"}
    assert models - trees == set(MODELS)


def test_all_models_with_epochs_have_the_same_stopping_rule():
    rules = {
        tuple(trainer_for(name).settings()[key] for key in ("epochs", "patience", "early_stop_metric"))
        for name in MODELS
        if name not in (*COUNTED, "bert4rec")
    }
    assert len(rules) == 1


def test_sequence_models_have_both_label_horizons_where_requests_have_many_items():
    both = [name for name in systems_of(DEMO) if name.endswith(NEXT)]
    assert {"sasrec, next item", "gru4rec, next item"} <= set(both)
    assert not [name for name in systems_of(SHOP) if name.endswith(NEXT)]
    ahead = [trainer_for(name).settings()["ahead"] for name in ("sasrec, next item", "sasrec")]
    assert ahead == [1, 0]


def test_counts_and_slow_models_run_with_one_seed_where_seeds_change_nothing():
    fixed = Setup("ml-1m", "global-time")
    assert seeds_of(fixed, "ease", (3, 4)) == (3,)
    assert seeds_of(DEMO, "ease", (3, 4)) == (3, 4)
    assert seeds_of(DEMO, "bert4rec", (3, 4)) == seeds_of(DEMO, "classic", (3, 4)) == (3,)
    assert [one.seed for one in cells_of([DEMO], ["sasrec"], (3, 4))] == [3, 4]


@pytest.mark.parametrize("system", ["last-click", "sasrec, next item"])
def test_a_cell_has_the_metrics_of_every_test_user(system):
    found, facts = run_cell(Cell(DEMO, system, 0), None, is_quick=True)
    users = len(dataset_of(DEMO, 0, None, True).split().test)
    assert found.shape == (len(METRICS), users)
    assert facts["seconds"] > 0
    assert 0 < float(found.mean()) < 1


def test_a_pipeline_is_measured_by_its_slates(monkeypatch):
    """The stub trains a single model in place of the composed pipeline."""
    trained = []

    def stub(recipe, dataset, **options):
        trained.append((recipe, options))
        options.pop("minutes", None)
        return train(shipped_recipe("ease"), dataset, **options)

    monkeypatch.setattr(cells, "train", stub)
    found, facts = run_cell(Cell(DEMO, AUTO, 0), None, is_quick=True)
    alone, _ = run_cell(Cell(DEMO, "ease", 0), None, is_quick=True)
    assert trained[0][0] == AUTO
    torch.testing.assert_close(found, alone)
    assert facts["single"]
    assert facts["pipeline"].startswith("ease")


def test_classic_needs_times():
    from_world = dataset_of(DEMO, 0, None, True)
    assert classic_for(from_world).name == "classic"


def test_hashed_ties_change_the_test_items_of_a_log_with_ties():
    file_order, hashed = (
        dataset_of(Setup("amazon-like", f"leave-last-out{end}"), 0, None, True) for end in ("", cells.HASHED)
    )
    one, other = (data.split().test.relevant() for data in (file_order, hashed))
    assert 0.1 < float((one != other).float().mean()) < 0.6
    assert np.array_equal(file_order.events.times, hashed.events.times)


def test_metrics_are_those_of_evaluate():
    assert {name.partition("@")[0] for name in METRICS} <= set(RANKING)


def test_real_data_needs_a_folder():
    with pytest.raises(ConfigError, match="the full profile needs --data, a folder that holds mind"):
        run_cell(Cell(Setup("mind", "half-history"), "ease", 0), None)
