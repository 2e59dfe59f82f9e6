"""Both orders of events of one time, on a small log of shoppers, with a stub in place of `auto`."""

import pytest

from shortlist.lab.experiments.models import cells
from shortlist.lab.experiments.models.ties import ties
from shortlist.pipeline import shipped_recipe
from shortlist.train import train

from ..results import check_result


@pytest.fixture(autouse=True)
def _auto(monkeypatch):
    def stub(recipe, dataset, minutes=0.0, **options):
        return train(shipped_recipe("item-knn"), dataset, **options)

    monkeypatch.setattr(cells, "train", stub)


def test_every_system_has_figures_under_both_orders_and_a_paired_change():
    result = ties(None, "quick", seeds=[0])
    check_result(result, "ties")
    recall = {one.method: one.mean for one in result.rows if one.metric == "recall@20"}
    assert {f"last-click on amazon-like, leave-last-out{end}" for end in ("", ", hashed ties")} < set(recall)
    changes = {one.where: one for one in result.differences if one.other == "hashed ties"}
    change = changes["amazon-like, last-click"]
    both = [recall[f"last-click on amazon-like, leave-last-out{end}"] for end in ("", ", hashed ties")]
    assert change.estimate == pytest.approx(both[0] - both[1], abs=1e-6)
    share = next(one for one in result.rows if one.metric == "share of users")
    assert 0.3 < share.mean < 0.8
