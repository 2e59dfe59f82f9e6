"""JTRNominator: the best items of the leaves that the beam reaches."""

import pytest
import torch

from shortlist.data import Query
from shortlist.errors import ArtifactError, ConfigError
from shortlist.grammar import as_pipeline
from shortlist.index.jtr import JTRIndex, grow
from shortlist.models.sequence.sasrec import SASRec, SASRecConfig
from shortlist.nominate import JTRNominator, ModelNominator
from shortlist.nominate.jtr import ABOUT
from shortlist.testing.stages import check_stage
from tests.index.jtr.leaf_trees import shared
from tests.worlds import query_of, run_checked

N = 60


def nominator(copies=2, n_items=N, leaf=7, **given):
    torch.manual_seed(0)
    model = SASRec(SASRecConfig(n_items, 10, 8, 1, 2)).eval()
    index = shared(grow(model.vectors(), 3, leaf), model.vectors(), copies)
    return JTRNominator(model, index, name="jtr", **given)


@pytest.mark.parametrize("given", [{}, {"exclude_seen": True}, {"beam": 1}, {"copies": 1}], ids=str)
def test_stage_keeps_the_contract(given):
    check_stage(nominator(**given) % 12, N)


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_full_width_beam_nominates_what_exhaustive_scoring_nominates(exclude_seen):
    stage = nominator(beam=N, exclude_seen=exclude_seen) % 9
    query = query_of([1, 2, 3], [7, 50], [])
    nominated, full = (
        stage.nominate(query),
        (ModelNominator(stage.model, exclude_seen=exclude_seen) % 9).nominate(query),
    )
    assert torch.equal(nominated.items, full.items)
    torch.testing.assert_close(nominated.scores, full.scores)
    assert not nominated.scores.requires_grad


def test_user_without_history_gets_nominations():
    nominated = (nominator() % 5).nominate(query_of([], [3]))
    assert nominated.valid.all()
    assert torch.isfinite(nominated.scores).all()


def test_unknown_history_items_are_ignored():
    stage = nominator(exclude_seen=True) % 5
    one, two = (stage.nominate(Query.of([history])) for history in ([1, 2], [1, 999, 2, 60]))
    assert torch.equal(one.items, two.items)


def test_excluded_history_items_take_no_place():
    history = list(range(20))
    nominated = (nominator(beam=N, exclude_seen=True) % 30).nominate(query_of(history)).items[0].tolist()
    assert not set(history) & set(nominated)
    assert len(set(nominated) - {-1}) == 30


def test_beam_too_narrow_for_the_limit_is_widened():
    stage = nominator(beam=1, copies=1) % 30
    nominated = stage.nominate(query_of([1, 2, 3]))
    assert stage.beam_width > 1
    assert int(nominated.valid.sum()) > 7, "more than one leaf can hold"


@pytest.mark.parametrize(("n_items", "leaf"), [(1, 7), (5, 100), (9, 1)])
def test_limit_beyond_the_catalogue_leaves_places_empty(n_items, leaf):
    stage = nominator(n_items=n_items, leaf=leaf, copies=1) % 200
    nominated = run_checked(as_pipeline(stage), query_of([0])).candidates
    assert sorted(nominated.items[nominated.valid].tolist()) == list(range(n_items))


@pytest.mark.parametrize("beam", [0, -3])
def test_beam_below_one_is_refused(beam):
    with pytest.raises(ConfigError, match="beam must be at least 1"):
        nominator(beam=beam)


@pytest.mark.parametrize("given", [{}, {"beam": 1, "exclude_seen": True}, {"copies": 3}], ids=str)
def test_rebuilt_stage_gives_the_same_nominations(given):
    stage = nominator(**given) % 12
    assert all(one.isfinite().all() for one in stage.tensors().values())
    back = JTRNominator.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    query = query_of([1, 2], [9, 4, 33], [])
    one, two = stage.nominate(query), back.nominate(query)
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)


def as_bytes(text):
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    "about",
    [
        as_bytes("{"),
        as_bytes("[1]"),
        as_bytes("{}"),
        as_bytes('{"n_items": 61, "leaf": 7}'),
        torch.tensor([300, -4]),
    ],
    ids=str,
)
def test_damaged_tree_settings_are_refused(about):
    stage = nominator()
    with pytest.raises(ArtifactError, match="make the artifact again"):
        JTRNominator.build(stage.settings(), {**stage.tensors(), ABOUT: about})


def test_tree_and_model_of_different_trainings_are_refused():
    stage, other = nominator(), nominator(n_items=50)
    missing = {name: one for name, one in stage.tensors().items() if name != ABOUT}
    with pytest.raises(ArtifactError, match=r"tensor 'tree\.about' is missing"):
        JTRNominator.build(stage.settings(), missing)
    mixed = JTRNominator(other.model, JTRIndex(stage.index.tree, stage.index.nodes))
    with pytest.raises(ArtifactError, match="come from different trainings"):
        JTRNominator.build(stage.settings(), mixed.tensors())


def test_beam_knob_has_the_effective_width_and_the_least_the_limit_needs():
    stage = nominator(beam=1, copies=1) % 30
    limit, beam = stage.knobs()
    assert (limit.name, limit.value, limit.rule) == ("limit", 30, "scale")
    assert (beam.name, beam.value, beam.least) == ("beam", stage.beam_width, stage.beam_width)
    wide = stage.renewed(beam=50).knobs()[1]
    assert (wide.value, wide.least) == (50, beam.least)
