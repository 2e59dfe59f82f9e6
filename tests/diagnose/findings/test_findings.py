from shortlist.diagnose.findings.findings import advice, avoidable, best_knob, in_short, knobs_of, setting
from tests.diagnose.made_up import between, knob, made_up


def of(told, stage):
    return next(one for one in advice(told) if one.stage == stage)


def test_the_biggest_avoidable_loss_comes_first():
    told = made_up()
    losses = [one for one in advice(told) if one.share]
    assert [one.stage for one in losses] == ["pool", "rank", "diverse", "seen"]
    assert [one.share for one in losses] == [0.3, 0.29, 0.15, 0.01]
    assert "300 of 1,000 wanted items (30.0% [29.0%, 31.0%])" in losses[0].what


def test_what_no_order_could_have_kept_does_not_count_as_avoidable():
    told = made_up()
    last = told["stages"][-1]
    last["lost"], last["no_room"] = 900, 800
    assert avoidable(last) == 100
    assert advice(told)[0].stage == "pool"
    assert "for 800 of them there is no place in the end" in of(told, "diverse").what


def test_a_knob_is_told_with_the_gain_that_was_measured():
    found = of(made_up(), "rank")
    assert found.gain == between(0.021)
    assert "cut = 120 at 'rank' gave +2.1 points [+1.1, +3.1] (the best of 2 settings tried)" in found.knob
    assert "with 120 candidates per request after this stage instead of 60" in found.knob


def test_a_gain_that_may_be_chance_is_called_nothing_measurable():
    found = of(made_up(), "pool")  # the pool owns the knobs of its nominators
    assert "Turning it gave nothing measurable: limit = 400 at 'covisit' gave +0.2 points" in found.knob


def test_a_sure_gain_outranks_a_larger_one_that_may_be_chance():
    sure, wide = knob("rank", "cut", "80", 0.02, 0.005), knob("rank", "cut", "90", 0.03, 0.05)
    assert best_knob([wide, sure]) is sure
    assert best_knob([wide]) is wide
    assert best_knob([knob("rank", "mode", "mixed", None)]) is None


def test_the_best_of_several_is_said_to_look_better_than_it_is():
    short = " ".join(in_short(made_up()))
    measured = sum(one["gain"] is not None for one in made_up()["knobs"])
    assert f"Of {measured} settings tried, cut = 120 at 'rank' brought most: +2.1 points" in short
    assert "The best of several looks a little better than it is" in short


def test_settings_that_only_make_it_worse_are_told_so():
    told = made_up(knobs=[knob("rank", "cut", "30", -0.03)])
    assert "Every setting tried made it worse" in of(told, "rank").knob


def test_what_needs_training_says_how_to_have_it_measured():
    told = made_up(knobs=[knob("rank", "mode", "mixed", None), knob("rank", "negatives", "both", None)])
    found = of(told, "rank")
    assert found.gain is None
    assert "Not measured: mode = mixed, negatives = both; that needs training, add --retrain." in found.knob


def test_without_any_knob_nothing_is_promised():
    told = made_up(knobs=[])
    assert "No setting of this stage was tried." in of(told, "rank").knob
    assert in_short(told)[-1] == "No setting was tried on these users."


def test_few_users_give_values_without_intervals():
    bare = {"mean": 0.02, "low": None, "high": None}
    told = made_up(knobs=[{**knob("rank", "cut", "120", 0.02), "gain": bare}])
    told["stages"][2]["share"] = {"mean": 0.29, "low": None, "high": None}
    found = of(told, "rank")
    assert "(29.0%)" in found.what
    assert found.knob.endswith("gave +2.0 points.")


def test_a_filter_with_a_cut_behind_it_tells_its_rule_from_want_of_places():
    told = made_up()
    told["stages"][1] |= {"removed": 4}
    assert "To 4 of them its rule said no; 6 passed, but stood too far back" in of(told, "seen").why
    told["stages"][1] |= {"removed": 0}
    assert of(told, "seen").why.startswith("Its rule let them pass, but they stood too far back")
    assert of(told, "seen").knob.startswith("A better order before it")
    assert of(made_up(), "seen").knob.startswith("The rule of the filter")
    assert "by its rule, not by a score" in of(made_up(), "seen").why


def test_numbers_of_one_are_said_as_one():
    told = made_up(users=1, wanted=1)
    assert in_short(told)[0].startswith("Of 1 wanted item (what 1 user really met next)")


def test_whoever_would_lose_it_again_is_named():
    assert "later stages, 'diverse' most of all, would lose it again" in of(made_up(), "pool").why
    assert "lose it again" not in of(made_up(), "diverse").why  # nothing comes after it


def test_small_losses_share_a_sentence():
    told = made_up()
    told["stages"][1]["lost"] = 3
    last = [one for one in advice(told) if one.share][-1]
    assert last.what == "'seen' loses 0.30% of what is wanted and would have had a place."


def test_a_tree_says_whether_search_or_scorer_is_to_blame():
    account = {"wanted": 400, "found": 200, "model": 199, "search": 3, "lucky": 2}
    told = made_up(trees={"oak": {"account": account, "users": 100}})
    why = of(told, "pool").why
    assert "The tree 'oak' missed 50.0% of what 100 users wanted" in why
    assert "49.8% because its scorer" in why
    assert "So a larger beam will not help." in why


def test_the_verdict_is_three_sentences():
    first, second, third = in_short(made_up())
    assert "Of 1,000 wanted items (what 400 users really met next) the funnel returned 150" in first
    assert "at 'pool' (where candidates come from): 300 wanted items, 30.0%" in second
    assert "Most could be won at 'rank': a perfect order there would bring +12.0 points" in second
    assert "cut = 120 at 'rank' brought most: +2.1 points" in third


def test_a_funnel_that_loses_nothing_or_was_asked_for_nothing_has_a_verdict_too():
    told = made_up()
    for stage in told["stages"]:
        stage |= {"lost": 0, "no_room": 0}
    assert in_short(told)[-1] == "No stage loses anything that could be avoided."
    assert advice(told)[0].share == 0
    assert in_short(made_up(wanted=0, stages=[]))[0].startswith("Nobody in the sample")


def test_settings_that_bring_nothing_are_not_praised():
    told = made_up(knobs=[knob("rank", "cut", "120", 0.001)])
    assert in_short(told)[-1].startswith("None of the settings")


def test_knobs_belong_to_their_stage_alone():
    told = made_up()
    assert [one["setting"] for one in knobs_of(told["stages"][2], told)] == ["120", "30"]
    assert [one["setting"] for one in knobs_of(told["stages"][0], told)] == ["400"]
    assert [one["label"] for one in knobs_of(told["stages"][1], told)] == ["rule"]
    assert knobs_of(told["stages"][3], told) == []


def test_settings_are_said_as_one_would_say_them():
    assert setting(knob("rank", "cut", "120", 0.1)) == "cut = 120 at 'rank'"
    assert setting(knob("rank", "cut", "none", 0.1)) == "no cut at 'rank'"
    assert setting(knob("seen", "rule", "left out: what it costs", 0.1)) == "leaving out the rule of 'seen'"


def test_a_rule_is_told_with_what_leaving_it_out_does():
    assert "leaving out the rule of 'seen' gave -4.0 points [-5.0, -3.0]: it does more good than harm." in (
        of(made_up(), "seen").knob
    )


def test_a_selector_that_goes_by_a_ranker_says_whose_order_counts():
    assert "It goes by the scores of 'rank'" in of(made_up(), "diverse").why


def test_a_stage_whose_mending_brings_nothing_is_not_promised():
    told = made_up()
    for stage in told["stages"]:
        stage["what_if"] |= {"oracle": between(0.0, 0.0), "order": None}
    assert "No single perfect stage would bring more" in in_short(told)[1]
    assert "Nothing of what it loses" in of(told, "pool").why
    for stage in told["stages"]:
        stage["what_if"]["oracle"] = {"mean": None, "low": None, "high": None}
    assert "perfect" not in of(told, "pool").why


def test_slates_that_all_begin_alike_are_in_the_verdict():
    told = made_up(coverage={"collapse": True, "first_share": 0.8})
    assert in_short(told)[-1] == "Alarm: 80.0% of all slates begin with the same item."
    assert len(in_short(made_up(coverage={"collapse": False, "first_share": 0.1}))) == 3
