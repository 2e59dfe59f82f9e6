import pytest
import torch

from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.table2 import (
    ABOVE,
    CONTROLS,
    FULL_CATALOG,
    SECONDS,
    TREES,
    dtr_table2,
    scores_of,
)
from shortlist.lab.experiments.trees.trial import Trial
from tests.lab.experiments.results import check_result, ids


def test_every_system_has_rows_and_claims(cache_file):
    result = dtr_table2(None, "quick", [0], cache_file=cache_file)
    check_result(result, "dtr-table2")
    timed = {one.method for one in result.rows if one.metric == SECONDS}
    assert timed == {f"{system} on world" for system in (*FULL_CATALOG, "din", *TREES)}
    assert len(result.claims) == len(ABOVE) + len(CONTROLS)
    assert {"dtr-t-rl >= dtr-t on world", "dtr-u > jtm on world"} <= ids(result)


def test_cached_answers_make_the_same_table_without_training(cache_file, request):
    first = dtr_table2(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("no_training")
    again = EXPERIMENTS["dtr-table2-mind"](None, "quick", [0], cache_file=cache_file)
    check_result(again, "dtr-table2-mind")
    assert again.rows == first.rows


def test_otm_continues_from_the_tree_of_jtm(data_setup, monkeypatch):
    """OTM never updates its tree: it stays the tree of JTM."""
    trained: dict[str, list[torch.Tensor]] = {}
    train = Trial.train

    def recorded(self, plan, start=None):
        index, training = train(self, plan, start)
        system = {"beam": "otm", "uniform": "jtm"}[plan.sampler]
        trained.setdefault(system, []).append(index.tree.item_of_leaf)
        return index, training

    monkeypatch.setattr(Trial, "train", recorded)
    cache = AnswerCache()
    scores_of(Trial(data_setup, 0, cache), "otm")
    assert set(cache.tensors) == {"world/otm/0"}
    (jtm,), (otm,) = trained["jtm"], trained["otm"]
    assert torch.equal(jtm, otm)
    assert jtm.tolist() != sorted(jtm.tolist())


@pytest.mark.parametrize(
    ("variant", "label", "setting", "value"),
    [
        ("random-init", "random initial vectors", "embedding_init", "random"),
        ("ahead", "labels from the next 5", "ahead", 5),
    ],
)
def test_a_variant_changes_the_settings_of_every_method(cache_file, variant, label, setting, value):
    """The cache is that of the usual table, and none of its answers is used."""
    name = f"dtr-table2-{variant}"
    result = EXPERIMENTS[name](None, "quick", [0], cache_file=cache_file)
    check_result(result, name)
    assert f"dtr-u > jtm on world, {label}" in ids(result)
    settings = [
        (key.split("/"), one["settings"])
        for key, one in AnswerCache.open(cache_file).facts.items()
        if "settings" in one
    ]
    trained = {system: one for (key, system, _), one in settings if key == f"world, {label}"}
    assert {*TREES, "din"} < set(trained)
    assert all(trained[system][setting] == value for system in (*TREES, "din"))
    (estimator,) = (one for system, one in trained.items() if system.startswith("sasrec of"))
    assert estimator["ahead"] == (value if setting == "ahead" else 1)
