import pytest
import torch

from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.cache import Kept
from shortlist.lab.experiments.trees.common import Trial
from shortlist.lab.experiments.trees.table2 import ABOVE, CONTROLS, FLAT, SECONDS, TREES, answered, dtr_table2
from tests.lab.experiments.shapes import check_shape, ids


def test_every_system_stands_in_the_table(keep):
    told = dtr_table2(None, "quick", [0], keep=keep)
    check_shape(told, "dtr-table2")
    timed = {one["method"] for one in told["rows"] if one["metric"] == SECONDS}
    assert timed == {f"{who} on world" for who in (*FLAT, "din", *TREES)}
    assert len(told["claims"]) == len(ABOVE) + len(CONTROLS)
    assert {"dtr-t-rl >= dtr-t on world", "dtr-u > jtm on world"} <= ids(told)


def test_kept_answers_make_the_same_table_without_training(keep, request):
    first = dtr_table2(None, "quick", [0], keep=keep)
    request.getfixturevalue("untaught")
    again = EXPERIMENTS["dtr-table2-mind"](None, "quick", [0], keep=keep)
    check_shape(again, "dtr-table2-mind")
    assert again["rows"] == first["rows"]


def test_otm_begins_with_the_tree_that_jtm_learned(ground, monkeypatch):
    """Its tree is not its own: it is never updated, and stands as JTM left it."""
    trained: dict[str, list[torch.Tensor]] = {}
    train = Trial.train

    def watched(self, plan, start=None):
        index, training = train(self, plan, start)
        who = {"beam": "otm", "uniform": "jtm"}[plan.sampler]
        trained.setdefault(who, []).append(index.tree.item_of_leaf)
        return index, training

    monkeypatch.setattr(Trial, "train", watched)
    kept = Kept()
    answered(Trial(ground, 0, kept), "otm")
    assert set(kept.tensors) == {"world/otm/0"}
    (jtm,), (otm,) = trained["jtm"], trained["otm"]
    assert torch.equal(jtm, otm)
    assert jtm.tolist() != sorted(jtm.tolist())


@pytest.mark.parametrize(
    ("variant", "said", "setting", "value"),
    [
        ("chance", "vectors by chance", "vectors", "random"),
        ("ahead", "labels from the next 5", "ahead", 5),
    ],
)
def test_a_variant_teaches_every_method_otherwise_and_says_so(keep, variant, said, setting, value):
    """The file of answers is that of the usual table, and nothing of it is taken."""
    name = f"dtr-table2-{variant}"
    told = EXPERIMENTS[name](None, "quick", [0], keep=keep)
    check_shape(told, name)
    assert f"dtr-u > jtm on world, {said}" in ids(told)
    kept = [
        (key.split("/"), one["settings"]) for key, one in Kept.at(keep).facts.items() if "settings" in one
    ]
    taught = {who: one for (place, who, _), one in kept if place == f"world, {said}"}
    assert {*TREES, "din"} < set(taught)
    assert all(one[setting] == value for who, one in taught.items() if not who.startswith("sasrec"))
    (estimator,) = (one for who, one in taught.items() if who.startswith("sasrec"))
    assert estimator["ahead"] == (value if setting == "ahead" else 1)
