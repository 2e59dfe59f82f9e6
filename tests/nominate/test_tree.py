"""TreeNominator: the best leaves of a beam search; nothing for users without history."""

import json

import pytest
import torch

from shortlist.artifact.store import Lineage
from shortlist.data import Catalog, Query, Vocabulary
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import as_pipeline
from shortlist.index.tree import exhaustive
from shortlist.nominate import TreeNominator
from shortlist.nominate.tree import ABOUT
from shortlist.pipeline import About, Recommender, load_recommender, save_recommender
from shortlist.pipeline.recommender import Request
from shortlist.state.histories import UserHistories
from shortlist.testing.stages import check_stage
from tests.train.tree.small import small_index
from tests.worlds import query_of, run_checked

N = 60


def nominator(branch=2, leaf_vectors="slot", spare=0.0, history="ancestor", kind="attention", **given):
    index = small_index(N, branch, leaf_vectors, spare=spare, history=history, kind=kind)
    index.scorer.eval()
    return TreeNominator(index, name="tree", **given)


@pytest.mark.parametrize("kind", ["attention", "mlp", "linear"])
@pytest.mark.parametrize("given", [{}, {"exclude_seen": True}, {"product": True}, {"beam": 3}], ids=str)
def test_stage_keeps_the_contract(kind, given):
    check_stage(nominator(kind=kind, **given) % 12, N)


def test_full_width_beam_finds_what_exhaustive_search_finds():
    stage = nominator(beam=N) % 9
    query = query_of([1, 2, 3], [7, 50])
    nominated = stage.nominate(query)
    full = exhaustive(stage.index, query.history, 9)
    assert torch.equal(nominated.items, full.items)
    torch.testing.assert_close(nominated.scores, full.scores)
    assert not nominated.scores.requires_grad


def test_user_without_history_gets_no_nominations():
    nominated = nominator().nominate(query_of([], [3]))
    assert nominated.valid.any(1).tolist() == [False, True]
    assert torch.isfinite(nominated.scores).all()


def test_excluded_history_items_take_no_place():
    history = list(range(20))
    query = query_of(history)
    all_items, unseen = (nominator(beam=N, exclude_seen=flag) % 30 for flag in (False, True))
    assert set(history) & set(all_items.nominate(query).items[0].tolist())
    nominated = unseen.nominate(query).items[0].tolist()
    assert not set(history) & set(nominated)
    assert len(set(nominated) - {-1}) == 30


def test_product_of_the_path_gives_another_ranking():
    query = query_of([1, 2, 3])
    one, two = ((nominator(beam=N, product=product) % 9).nominate(query) for product in (False, True))
    assert not torch.equal(one.items, two.items)
    full = exhaustive(nominator().index, query.history, 9, path=True)
    assert torch.equal(two.items, full.items)


def test_beam_too_narrow_for_the_limit_is_widened():
    nominated = (nominator(branch=2, beam=2) % 30).nominate(query_of([1, 2, 3]))
    assert len(set(nominated.items[0].tolist()) - {-1}) == 30


def test_limit_beyond_the_catalogue_leaves_places_empty():
    nominated = run_checked(as_pipeline(nominator(spare=0.2) % 200), query_of([1, 2, 3])).candidates
    assert sorted(nominated.items[nominated.valid].tolist()) == list(range(N))


@pytest.mark.parametrize("beam", [0, -3])
def test_beam_below_one_is_refused(beam):
    with pytest.raises(ConfigError, match="beam must be at least 1"):
        nominator(beam=beam)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"leaf_vectors": "item", "spare": 0.2},
        {"history": "item", "branch": 5},
        {"beam": 7, "exclude_seen": True, "product": True},
    ],
    ids=str,
)
def test_rebuilt_stage_gives_the_same_nominations(given):
    stage = nominator(**given) % 12
    back = TreeNominator.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    assert (back.beam, back.exclude_seen, back.product) == (stage.beam, stage.exclude_seen, stage.product)
    query = query_of([1, 2], [9, 4, 33])
    one, two = stage.nominate(query), back.nominate(query)
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)


def recommender(stage):
    catalog = Catalog.bare(Vocabulary.of(list(range(N))))
    histories = UserHistories(torch.tensor([0, 3]), torch.tensor([1, 2, 3]))
    return Recommender(
        as_pipeline(stage), catalog, Vocabulary.of(["a"]), histories, About(name="tree", ends=9)
    )


def test_saved_and_loaded_stage_gives_the_same_nominations(tmp_path):
    made = recommender(nominator(beam=9, leaf_vectors="item") % 12)
    save_recommender(made, tmp_path / "kept", Lineage())
    back = load_recommender(tmp_path / "kept")
    for request in (Request(user="a"), Request(history=(5, 6, 7)), Request()):
        one, two = made.recommend(request), back.recommend(request)
        assert torch.equal(one.items, two.items)
        assert torch.equal(one.scores, two.scores)


def test_damaged_artifact_is_refused(tmp_path):
    save_recommender(recommender(nominator() % 12), tmp_path / "kept", Lineage())
    file = tmp_path / "kept" / "weights" / "stage-tree.safetensors"
    blob = bytearray(file.read_bytes())
    blob[-1] ^= 1
    file.write_bytes(blob)
    with pytest.raises(ArtifactError, match="sha256 differs"):
        load_recommender(tmp_path / "kept")


def as_bytes(text):
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    "about",
    [
        as_bytes("{"),
        as_bytes("[1, 2]"),
        as_bytes("3"),
        as_bytes('"tree"'),
        as_bytes("{}"),
        as_bytes('{"leaf_vectors": "slot", "tree": 3, "scorer": {}}'),
        torch.tensor([255, 254], dtype=torch.uint8),
        torch.empty(0, dtype=torch.uint8),
        torch.tensor([0.5, 1.0]),
        torch.tensor([300, -4]),
        torch.tensor([[123, 125]], dtype=torch.uint8),
        torch.tensor(3),
    ],
    ids=str,
)
def test_damaged_tree_settings_are_refused(about):
    stage = nominator()
    with pytest.raises(ArtifactError, match="make the artifact again"):
        TreeNominator.build(stage.settings(), {**stage.tensors(), ABOUT: about})


def test_missing_or_inconsistent_parts_are_refused():
    stage = nominator()
    tensors = stage.tensors()
    missing = {name: one for name, one in tensors.items() if name != ABOUT}
    with pytest.raises(ArtifactError, match="tensor 'about' is missing"):
        TreeNominator.build(stage.settings(), missing)
    permuted = {**tensors, "tree.item_of_leaf": tensors["tree.item_of_leaf"].flip(0)}
    with pytest.raises(ArtifactError, match="checksum"):
        TreeNominator.build(stage.settings(), permuted)
    about = json.loads(bytes(tensors[ABOUT].tolist()))
    about["scorer"]["kind"] = "oracle"
    with pytest.raises(ArtifactError, match="kind must be one of"):
        TreeNominator.build(stage.settings(), {**tensors, ABOUT: as_bytes(json.dumps(about))})


def test_unknown_history_items_are_ignored():
    stage = nominator() % 5
    one = stage.nominate(Query.of([[1, 2]]))
    two = stage.nominate(Query.of([[1, 2, 999]]))
    assert two.items.shape == one.items.shape
    assert (two.items < N).all()


def test_beam_knob_has_the_effective_width_and_the_least_the_limit_needs():
    limit, beam = (nominator(branch=2, beam=2) % 30).knobs()
    assert (limit.name, limit.value) == ("limit", 30)
    assert (beam.name, beam.value, beam.least, beam.rule) == ("beam", 15, 15, "scale")
