import pytest
import torch

from shortlist.lab.experiments import EXPERIMENTS
from shortlist.lab.experiments.cache import AnswerCache
from shortlist.lab.experiments.trees.trial import Trial
from shortlist.lab.experiments.trees.table2 import ABOVE, CONTROLS, FLAT, SECONDS, TREES, answered, dtr_table2
from tests.lab.experiments.shapes import check_shape, ids


def test_every_system_stands_in_the_table(cache_file):
    told = dtr_table2(None, "quick", [0], cache_file=cache_file)
    check_shape(told, "dtr-table2")
    timed = {one["method"] for one in told["rows"] if one["metric"] == SECONDS}
    assert timed == {f"{who} on world" for who in (*FLAT, "din", *TREES)}
    assert len(told["claims"]) == len(ABOVE) + len(CONTROLS)
    assert {"dtr-t-rl >= dtr-t on world", "dtr-u > jtm on world"} <= ids(told)


def test_kept_answers_make_the_same_table_without_training(cache_file, request):
    first = dtr_table2(None, "quick", [0], cache_file=cache_file)
    request.getfixturevalue("untaught")
    again = EXPERIMENTS["dtr-table2-mind"](None, "quick", [0], cache_file=cache_file)
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
    cache = AnswerCache()
    answered(Trial(ground, 0, cache), "otm")
    assert set(cache.tensors) == {"world/otm/0"}
    (jtm,), (otm,) = trained["jtm"], trained["otm"]
    assert torch.equal(jtm, otm)
    assert jtm.tolist() != sorted(jtm.tolist())


@pytest.mark.parametrize(
    ("variant", "said", "setting", "value"),
    [
        ("chance", "vectors by chance", "embedding_init", "random"),
        ("ahead", "labels from the next 5", "ahead", 5),
    ],
)
def test_a_variant_teaches_every_method_otherwise_and_says_so(cache_file, variant, said, setting, value):
    """The file of answers is that of the usual table, and nothing of it is taken."""
    name = f"dtr-table2-{variant}"
    told = EXPERIMENTS[name](None, "quick", [0], cache_file=cache_file)
    check_shape(told, name)
    assert f"dtr-u > jtm on world, {said}" in ids(told)
    cache = [
        (key.split("/"), one["settings"])
        for key, one in AnswerCache.open(cache_file).facts.items()
        if "settings" in one
    ]
    taught = {who: one for (place, who, _), one in cache if place == f"world, {said}"}
    assert {*TREES, "din"} < set(taught)
    assert all(one[setting] == value for who, one in taught.items() if not who.startswith("sasrec"))
    (estimator,) = (one for who, one in taught.items() if who.startswith("sasrec"))
    assert estimator["ahead"] == (value if setting == "ahead" else 1)
