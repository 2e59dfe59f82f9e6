"""JTRNominator: the best items of the leaves a history walks to."""

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
from tests.index.jtr.groves import shared
from tests.worlds import asked, run_checked

N = 60


def nominator(copies=2, n_items=N, leaf=7, **given):
    torch.manual_seed(0)
    model = SASRec(SASRecConfig(n_items, 10, 8, 1, 2)).eval()
    index = shared(grow(model.vectors(), 3, leaf), model.vectors(), copies)
    return JTRNominator(model, index, name="jtr", **given)


@pytest.mark.parametrize("given", [{}, {"exclude_seen": True}, {"beam": 1}, {"copies": 1}], ids=str)
def test_it_keeps_the_contract(given):
    check_stage(nominator(**given) % 12, N)


@pytest.mark.parametrize("exclude_seen", [False, True])
def test_a_wide_beam_names_what_scoring_everything_names(exclude_seen):
    stage = nominator(beam=N, exclude_seen=exclude_seen) % 9
    query = asked([1, 2, 3], [7, 50], [])
    named, full = (
        stage.nominate(query),
        (ModelNominator(stage.model, exclude_seen=exclude_seen) % 9).nominate(query),
    )
    assert torch.equal(named.items, full.items)
    torch.testing.assert_close(named.scores, full.scores)
    assert not named.scores.requires_grad


def test_a_user_without_history_gets_what_the_encoder_says_of_anybody():
    named = (nominator() % 5).nominate(asked([], [3]))
    assert named.valid.all()
    assert torch.isfinite(named.scores).all()


def test_items_of_a_history_that_nobody_knows_are_as_if_not_there():
    stage = nominator(exclude_seen=True) % 5
    one, two = (stage.nominate(Query.of([met])) for met in ([1, 2], [1, 999, 2, 60]))
    assert torch.equal(one.items, two.items)


def test_what_is_fresh_was_not_met_and_takes_no_place():
    met = list(range(20))
    named = (nominator(beam=N, exclude_seen=True) % 30).nominate(asked(met)).items[0].tolist()
    assert not set(met) & set(named)
    assert len(set(named) - {-1}) == 30


def test_a_beam_too_narrow_for_the_limit_is_widened():
    stage = nominator(beam=1, copies=1) % 30
    named = stage.nominate(asked([1, 2, 3]))
    assert stage.wide > 1
    assert int(named.valid.sum()) > 7, "more than one leaf can hold"


@pytest.mark.parametrize(("n_items", "leaf"), [(1, 7), (5, 100), (9, 1)])
def test_a_limit_beyond_the_catalogue_leaves_places_empty(n_items, leaf):
    stage = nominator(n_items=n_items, leaf=leaf, copies=1) % 200
    named = run_checked(as_pipeline(stage), asked([0])).candidates
    assert sorted(named.items[named.valid].tolist()) == list(range(n_items))


@pytest.mark.parametrize("beam", [0, -3])
def test_a_beam_of_nothing_is_refused(beam):
    with pytest.raises(ConfigError, match="beam must be at least 1"):
        nominator(beam=beam)


@pytest.mark.parametrize("given", [{}, {"beam": 1, "exclude_seen": True}, {"copies": 3}], ids=str)
def test_it_answers_the_same_after_a_trip_through_its_tensors(given):
    stage = nominator(**given) % 12
    assert all(one.isfinite().all() for one in stage.tensors().values())
    back = JTRNominator.build(stage.settings(), stage.tensors())
    assert repr(back) == repr(stage)
    query = asked([1, 2], [9, 4, 33], [])
    one, two = stage.nominate(query), back.nominate(query)
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.scores, two.scores)


def said(text):
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


@pytest.mark.parametrize(
    "about",
    [said("{"), said("[1]"), said("{}"), said('{"n_items": 61, "leaf": 7}'), torch.tensor([300, -4])],
    ids=str,
)
def test_what_is_said_of_the_tree_must_make_sense(about):
    stage = nominator()
    with pytest.raises(ArtifactError, match="make the artifact again"):
        JTRNominator.build(stage.settings(), {**stage.tensors(), ABOUT: about})


def test_parts_that_do_not_belong_together_are_refused():
    stage, other = nominator(), nominator(n_items=50)
    lacking = {name: one for name, one in stage.tensors().items() if name != ABOUT}
    with pytest.raises(ArtifactError, match=r"lack 'tree\.about'"):
        JTRNominator.build(stage.settings(), lacking)
    mixed = JTRNominator(other.model, JTRIndex(stage.index.tree, stage.index.nodes))
    with pytest.raises(ArtifactError, match="belong to different trainings"):
        JTRNominator.build(stage.settings(), mixed.tensors())
