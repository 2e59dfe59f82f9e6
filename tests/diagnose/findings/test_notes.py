from dataclasses import replace
from types import SimpleNamespace

from shortlist.diagnose.calibration import Bin, Calibration, Reliability
from shortlist.diagnose.diagnosis import NominatorReport
from shortlist.diagnose.findings.notes import notes
from shortlist.diagnose.not_measured import NotMeasured
from shortlist.diagnose.tree.beam_losses import LossCounts
from shortlist.pipeline import About, TrainingHistory
from tests.diagnose.example import (
    COVERAGE,
    NOMINATORS,
    SHIFT,
    VERDICT,
    between,
    diagnosis,
    knob,
    with_stage,
)

COLLAPSED = replace(COVERAGE, collapse=True, first_share=0.4)


def texts(**changes):
    return [note.what + " " + note.knob for note in notes(diagnosis(**changes))]


def verdict(answer, difference):
    return replace(VERDICT, answer=answer, difference=between(difference))


def tree_of(beam, users=100):
    losses = LossCounts(400, 200, 199, beam, 2, 0, 0, 0)
    return SimpleNamespace(losses=losses, users=users)


def test_funnel_without_problems_has_no_notes():
    assert texts(nominators={"covisit": NOMINATORS["covisit"]}) == []


def test_ranker_that_does_better_on_the_whole_catalogue_is_reported():
    found = texts(verdict=verdict("hurts", -0.05))
    assert "'rank' alone, over the whole catalogue, would do better" in found[0]
    assert "(-5.0 points [-6.0, -4.0])" in found[0]
    assert "Widen the stages before it" in found[0]


def test_verdict_that_was_not_measured_gives_no_note():
    assert texts(verdict=NotMeasured("no scorer")) == texts()


def test_more_candidates_that_lower_recall_ask_for_other_negatives():
    found = texts(knobs=(knob("covisit", "limit", "400", -0.03, candidates=300.0),))
    assert "More candidates lower recall: limit = 400 at 'covisit' gave -3.0 points" in found[0]
    assert 'negatives = "candidates"' in found[0]
    fewer = texts(knobs=(knob("covisit", "limit", "20", -0.03, candidates=30.0),))
    assert not any("More candidates" in text for text in fewer)


def test_ranker_that_needs_the_stages_before_it_is_reported():
    assert "'rank' needs the stages before it" in texts(verdict=verdict("helps", 0.05))[0]


def test_beam_that_loses_nothing_needs_not_be_larger():
    assert any("A larger beam will not help" in text for text in texts(trees={"oak": tree_of(3)}))
    assert not any("beam" in text for text in texts(trees={"oak": tree_of(4)}))  # one in a hundred


def test_large_shift_asks_for_training_on_current_candidates():
    large = replace(SHIFT, level="large", auc=0.85)
    found = texts(shift={"rank": large})
    assert "'rank' was trained on other candidates than it receives at serving (large shift)" in found[0]
    assert "0.85" in found[0]
    assert "Train again with the nominators and cuts that serve now." in found[0]
    for quiet in ({"level": "small"}, {"few": True}):
        assert texts(shift={"rank": replace(large, **quiet)}) == texts()


def test_collapse_comes_first():
    found = texts(coverage=COLLAPSED, verdict=verdict("hurts", -0.05))
    assert found[0].startswith("Alarm: 40.0% of all slates begin with the same item.")


def test_few_retrieved_targets_advise_against_harmonised_training():
    found = texts(shift={"rank": replace(SHIFT, level="small", recall_training=0.05)})
    assert "Only 5.0% of the targets were among the training candidates of 'rank'" in found[0]
    assert '"harmonised" is not advised' in found[0]


def calibration(confidence, accuracy, after=0.01, temperature=2.0, noise=0.0):
    before = Reliability(abs(confidence - accuracy), noise, None, (Bin(confidence, accuracy, 10),))
    corrected = None if after is None else Reliability(after, noise, None, ())
    return Calibration(200, 200, False, before, corrected, temperature)


def about_rank(one):
    return " ".join(texts(calibration={"rank": one}))


def test_miscalibration_is_reported_with_its_direction():
    assert "'rank' is overconfident: its mean confidence in its first choices is 60.0%" in (
        about_rank(calibration(0.6, 0.2))
    )
    assert "'rank' is underconfident" in about_rank(calibration(0.1, 0.5))
    assert "confident" not in about_rank(calibration(0.51, 0.5))
    assert "confident" not in about_rank(calibration(0.6, 0.5, noise=0.2))


def test_temperature_is_advised_only_where_it_corrects():
    assert "Divide its scores by 2.00" in about_rank(calibration(0.6, 0.2))
    assert "a temperature alone does not correct it" in about_rank(calibration(0.6, 0.2, after=0.39))
    assert "a temperature alone does not correct it" in about_rank(calibration(0.6, 0.2, None, None))


def test_scorers_that_were_not_measured_give_no_notes():
    missing = {"rank": NotMeasured("no candidates")}
    assert texts(shift=missing, calibration=missing) == texts()


def test_only_the_first_underfilled_stage_is_reported():
    found = with_stage(with_stage(diagnosis(), 2, underfilled=7), 3, underfilled=9)
    underfilled = [note for note in notes(found) if "fewer candidates than places" in note.what]
    assert [note.stage for note in underfilled] == ["rank"]
    assert "in 7 requests" in underfilled[0].what


def test_nominator_without_effect_can_be_removed():
    text = texts()[-1]
    assert "'popular' is redundant: without 'popular' -0.1 points [-0.4, +0.2]." in text
    assert "leaving out 'popular' saves time and costs no measurable recall" in text
    assert not notes(diagnosis())[-1].advised  # the interval of its gain contains 0


def test_nominator_that_another_stage_starts_from_is_never_advised_to_be_removed():
    assert texts(dependents={"popular": ("prerank", "rank")}) == []
    idle = NominatorReport(1, 0, between(0.01, 0.002))  # recall is higher without it
    some = texts(nominators={"a": idle, "b": idle}, dependents={"a": ("rank",)})[-1]
    assert "'b' is redundant" in some
    assert "'a'" not in some


def test_removal_of_a_nominator_has_its_measured_change_of_recall():
    low, high = NominatorReport(1, 0, between(-0.001, 0.002)), NominatorReport(1, 0, between(0.0, 0.004))
    nominators = {"a": low, "b": high}
    note = notes(replace(diagnosis(), nominators=nominators))[-1]
    assert (note.stage, note.gain, note.setting) == ("b", high.without, "leaving out 'b'")
    note = notes(replace(diagnosis(), nominators=nominators, dependents={"b": ("rank",)}))[-1]
    assert (note.gain, note.setting) == (low.without, "leaving out 'a'")
    both = {"a": ("rank",), "b": ("rank",)}
    assert notes(replace(diagnosis(), nominators=nominators, dependents=both)) == ()


def test_nominators_that_replace_each_other_are_removed_one_at_a_time():
    idle = NominatorReport(1, 0, between(0.0, 0.002))
    text = texts(nominators={"a": idle, "b": idle})[-1]
    assert text.startswith("Every nominator is redundant on its own")
    assert "Leave out one at a time" in text


def test_removal_that_gains_barely_among_many_nominators_is_not_advised():
    barely = NominatorReport(1, 0, between(0.01, 0.0095))
    two = {"a": barely, "b": NOMINATORS["popular"]}
    many = {**two, **{f"c{at}": NOMINATORS["popular"] for at in range(8)}}
    assert not notes(replace(diagnosis(), nominators=many))[-1].advised
    sure = {**many, "a": NominatorReport(1, 0, between(0.03))}
    assert notes(replace(diagnosis(), nominators=sure))[-1].advised


def test_only_the_calibration_of_the_last_scorer_is_reported():
    assert texts(calibration={"first": calibration(0.6, 0.2), "rank": calibration(0.5, 0.5)}) == texts()


def test_wide_interval_around_0_is_no_evidence_against_a_nominator():
    unsure = NominatorReport(1, 0, between(0.0, 0.05))
    assert texts(nominators={**NOMINATORS, "popular": unsure}) == []


def test_nominator_that_lowers_recall_is_reported_and_an_only_one_stays():
    harmful = NominatorReport(1, 0, between(0.03))
    assert "Recall is higher without 'popular'." in texts(nominators={**NOMINATORS, "popular": harmful})[-1]
    assert texts(nominators={"popular": harmful}) == []


def test_ranker_trained_with_candidates_as_negatives_is_not_advised_to_be():
    wider = (knob("covisit", "limit", "400", -0.03, candidates=300.0),)

    def about(negatives):
        return About(training={"rank": TrainingHistory(1, 1, negatives=negatives)})

    assert "trained with candidates as negatives already" in texts(knobs=wider, about=about("candidates"))[0]
    assert "whether candidates as negatives" in texts(knobs=wider, about=about("catalogue"))[0]


def test_wider_stages_that_lower_recall_are_no_reason_to_leave_the_pool_as_it_is():
    wider = (knob("covisit", "limit", "400", -0.03, candidates=300.0),)
    for negatives in ("candidates", "catalogue"):
        about = About(training={"rank": TrainingHistory(1, 1, negatives=negatives)})
        text = texts(knobs=wider, about=about)[0]
        assert "as they are" not in text
        assert "will not help" not in text
        assert "Not known without training" in text


def test_funnel_without_a_scorer_is_not_advised_to_train_one_longer():
    bare = tuple(stage for stage in diagnosis().stages if stage.kind != "scorer")
    found = texts(stages=bare, verdict=NotMeasured("no scorer"), coverage=COLLAPSED)
    assert "add a nominator that uses histories" in found[0]
    assert "Check that the last scorer uses histories" in texts(coverage=COLLAPSED)[0]
