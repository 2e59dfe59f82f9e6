from dataclasses import replace

from shortlist.diagnose.findings.findings import findings_of, knobs_of, with_findings
from shortlist.diagnose.findings.summary import best_knob, setting, summary
from shortlist.metrics.estimate import Estimate
from tests.diagnose.example import COVERAGE, between, diagnosis, knob, with_stage
from tests.diagnose.findings.test_notes import tree_of


def of(found, stage):
    return next(finding for finding in findings_of(found) if finding.stage == stage)


def test_largest_avoidable_loss_comes_first():
    losses = [finding for finding in findings_of(diagnosis()) if finding.share]
    assert [finding.stage for finding in losses] == ["pool", "rank", "diverse", "seen"]
    assert [finding.share for finding in losses] == [0.3, 0.29, 0.15, 0.01]
    assert "300 of 1,000 relevant items (30.0% [29.0%, 31.0%])" in losses[0].what
    assert with_findings(diagnosis()).findings == findings_of(diagnosis())


def test_unavoidable_losses_do_not_decide_the_order():
    found = with_stage(diagnosis(), 3, lost=900, unavoidable=800, avoidable=100)
    assert findings_of(found)[0].stage == "pool"
    assert "800 of them are unavoidable" in of(found, "diverse").what


def test_advice_holds_the_measured_gain_of_the_best_knob():
    found = of(diagnosis(), "rank")
    assert found.gain == between(0.021)
    assert "cut = 120 at 'rank' gave +2.1 points [+1.1, +3.1] (the best of 2 settings)" in found.knob
    assert "with 120 candidates per request after this stage instead of 60" in found.knob


def test_gain_whose_interval_contains_0_is_not_significant():
    found = of(diagnosis(), "pool")  # the pool owns the knobs of its nominators
    assert "Without training no setting gains significantly: limit = 400 at 'covisit' gave" in found.knob
    assert not found.advised


def test_significant_gain_outranks_a_larger_one_that_is_not():
    sure, wide = knob("rank", "cut", "80", 0.02, 0.005), knob("rank", "cut", "90", 0.03, 0.05)
    assert best_knob([wide, sure]) is sure
    assert best_knob([wide]) is wide
    assert best_knob([knob("rank", "mode", "mixed", None)]) is None


def test_summary_says_that_the_best_of_several_is_overestimated():
    text = " ".join(summary(diagnosis()))
    assert "Of 3 settings measured, cut = 120 at 'rank' gained most: +2.1 points" in text
    assert "The best of several is overestimated" in text


def test_settings_that_only_lower_recall_are_reported_so():
    found = diagnosis(knobs=(knob("rank", "cut", "30", -0.03),))
    assert "With all stages as trained, every measured setting lowers recall" in of(found, "rank").knob


def test_knobs_that_need_training_say_how_to_measure_them():
    found = diagnosis(knobs=(knob("rank", "mode", "mixed", None), knob("rank", "negatives", "both", None)))
    assert of(found, "rank").gain is None
    for stage in ("pool", "rank"):
        assert "Not known without training: whether" in of(found, stage).knob
        assert "--retrain measures it" in of(found, stage).knob
    assert "Not known" not in of(found, "seen").knob  # a rule is not trained
    assert "--retrain measures it" in summary(found)[-1]


def test_without_knobs_no_gain_is_promised():
    found = diagnosis(knobs=())
    assert "It has no setting that can be changed without training." in of(found, "rank").knob
    assert summary(found)[-1].startswith("No setting was measured on these users.")


def test_few_users_give_values_without_intervals():
    found = diagnosis(knobs=(replace(knob("rank", "cut", "120", 0.02), gain=Estimate(0.02)),))
    found = with_stage(found, 2, share=Estimate(0.29))
    assert "(29.0%)" in of(found, "rank").what
    assert "gave +2.0 points. Not known" in of(found, "rank").knob
    assert not of(found, "rank").advised


def test_filter_with_a_cut_separates_its_rule_from_the_cut():
    some = with_stage(diagnosis(), 1, removed=4)
    assert "Its rule removed 4 of them; 6 passed, but ranked below the cut" in of(some, "seen").why
    none = with_stage(diagnosis(), 1, removed=0)
    assert of(none, "seen").why.startswith("Its rule kept them, but they ranked below the cut")
    assert "by its rule, not by a score" in of(diagnosis(), "seen").why


def test_summary_counts_one_in_the_singular():
    found = diagnosis(users=1, relevant=1, returned=0)
    assert "the funnel returned 0 of 1 relevant item." in summary(found)[0]


def test_stage_that_would_lose_the_items_again_is_reported():
    assert "later stages, 'diverse' most of all, would lose it again" in of(diagnosis(), "pool").why
    assert "lose it again" not in of(diagnosis(), "diverse").why  # nothing comes after it


def test_findings_say_that_an_oracle_keeps_the_other_stages_as_trained():
    for stage in ("pool", "rank", "diverse"):
        assert "With the other stages as trained, a perfect" in of(diagnosis(), stage).why
    assert "with the other stages as trained" in summary(diagnosis())[1]


def test_small_losses_share_a_sentence():
    found = with_stage(diagnosis(), 1, lost=3, avoidable=3)
    last = [finding for finding in findings_of(found) if finding.share][-1]
    assert last.what == "'seen' loses 0.30% of the relevant items avoidably."


def test_tree_says_whether_beam_or_scorer_loses_items():
    why = of(diagnosis(trees={"oak": tree_of(3, users=100)}), "pool").why
    assert "The tree 'oak' missed 50.0% of the relevant items of 100 users" in why
    assert "49.8% because its scorer" in why
    assert "A larger beam will not help." in why


def test_summary_is_three_sentences_and_says_which_users_were_measured():
    first, second, third = summary(diagnosis())
    assert first.startswith("Recall@10 is 15.0% [14.0%, 16.0%], the mean over 400 validation users")
    assert "the funnel returned 150 of 1,000 relevant items" in first
    assert "decided by 'pool' (candidate generation): 300 relevant items, 30.0%" in second
    assert "The most could be gained at 'rank': a perfect order there would bring +12.0 points" in second
    assert "cut = 120 at 'rank' gained most: +2.1 points" in third


def test_funnel_without_losses_or_relevant_items_has_a_summary():
    found = diagnosis()
    for number in range(4):
        found = with_stage(found, number, lost=0, unavoidable=0, avoidable=0)
    assert summary(found)[-1] == "No stage has avoidable losses."
    assert findings_of(found)[0].share == 0
    assert summary(diagnosis(relevant=0, stages=()))[0].startswith("No user of the sample")


def test_settings_without_a_significant_gain_are_not_advised_in_the_summary():
    found = diagnosis(knobs=(knob("rank", "cut", "120", 0.001),))
    assert summary(found)[-1].startswith("None of the measured settings")


def test_knobs_belong_to_their_stage():
    found = diagnosis()
    owned = [[one.setting for one in knobs_of(stage, found)] for stage in found.stages]
    assert owned == [["400"], ["left out"], ["120", "30"], []]


def test_settings_in_sentences():
    assert setting(knob("rank", "cut", "120", 0.1)) == "cut = 120 at 'rank'"
    assert setting(knob("rank", "cut", "none", 0.1)) == "no cut at 'rank'"
    assert setting(knob("seen", "rule", "left out", 0.1)) == "leaving out 'seen'"
    assert "the whole catalogue" in setting(knob("pool", "candidates", "whole catalogue", 0.1))


def test_filter_finding_holds_the_effect_of_leaving_it_out():
    text = of(diagnosis(), "seen").knob
    assert "leaving out 'seen' gave -4.0 points [-5.0, -3.0]: the filter raises recall." in text


def test_selector_says_how_much_the_scores_before_it_would_lose_as_well():
    why = of(with_stage(diagnosis(), 3, by_order=100), "diverse").why
    assert "The best by the scores of 'rank' would lose 100 of the avoidable ones as well" in why
    assert "its own choice loses 50" in why


def test_selector_that_keeps_the_order_is_not_blamed_for_it():
    found = with_stage(diagnosis(), 3, by_order=150)  # as many as the best by score would lose
    assert found.decided == {"pool": 300, "seen": 10, "rank": 440, "diverse": 0}
    assert sum(found.decided.values()) == sum(stage.avoidable for stage in found.stages)
    assert found.largest_loss.name == "rank"
    assert "decided by 'rank' (a ranker): 440 relevant items" in summary(found)[1]
    losses = [finding for finding in findings_of(found) if finding.share]
    assert [finding.stage for finding in losses] == ["rank", "pool", "seen"]
    assert "Its order also decides 150 avoidable losses at 'diverse'." in losses[0].what
    assert "'diverse'" not in losses[1].why  # it is not the stage that loses what the pool would bring
    assert "the order of 'rank' would lose it again" in losses[1].why


def test_stage_with_small_losses_is_not_said_to_need_no_change():
    found = with_stage(diagnosis(), 2, lost=3, avoidable=3)
    small = next(finding for finding in findings_of(found) if finding.stage == "rank")
    assert "No change" not in small.knob
    assert "Not known without training: whether other candidates or scores from here would gain" in small.knob


def test_only_a_setting_with_a_gain_above_0_is_advice():
    advised = {finding.stage: finding.advised for finding in findings_of(diagnosis()) if finding.share}
    assert advised == {"pool": False, "rank": True, "diverse": False, "seen": False}


def test_stage_whose_oracle_gains_nothing_is_not_promised():
    found = diagnosis()
    for number, stage in enumerate(found.stages):
        nothing = replace(stage.what_if, oracle=between(0.0, 0.0), order=None)
        found = with_stage(found, number, what_if=nothing)
    assert "No single perfect stage would raise recall" in summary(found)[1]
    assert "Nothing of what it loses" in of(found, "pool").why
    unknown = with_stage(found, 0, what_if=replace(found.stages[0].what_if, oracle=Estimate(None)))
    assert "perfect" not in of(unknown, "pool").why


def test_slates_that_begin_with_one_item_are_in_the_summary():
    found = diagnosis(coverage=replace(COVERAGE, collapse=True, first_share=0.8))
    assert summary(found)[-1] == "Alarm: 80.0% of all slates begin with the same item."
    assert len(summary(diagnosis())) == 3


def test_limit_of_the_slate_is_in_the_summary():
    assert "recall is at most 50.0%" in summary(diagnosis(max_recall=0.5))[0]
    assert "at most" not in summary(diagnosis())[0]


def test_gain_that_one_of_many_settings_has_anyway_is_not_advised():
    barely = knob("rank", "cut", "80", 0.021, 0.016)
    assert of(diagnosis(knobs=(barely,)), "rank").advised
    found = of(
        diagnosis(knobs=(barely, *(knob("rank", "cut", str(90 + at), 0.0) for at in range(9)))), "rank"
    )
    assert not found.advised
    assert "Among the 11 settings measured at all stages this is not significant." in found.knob
