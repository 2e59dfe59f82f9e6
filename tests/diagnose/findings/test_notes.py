from shortlist.diagnose.findings.notes import remarks
from tests.diagnose.made_up import between, knob, made_up


def said(**changes):
    return [one.what + " " + one.knob for one in remarks(made_up(**changes))]


def verdict(answer, difference):
    return {**made_up()["verdict"], "answer": answer, "difference": between(difference)}


def test_a_quiet_funnel_has_few_remarks():
    quiet = {"covisit": made_up()["nominators"]["covisit"]}
    assert said(nominators=quiet) == []


def test_a_ranker_that_would_do_better_alone_is_told_with_numbers():
    found = said(verdict=verdict("hurts", -0.05))
    assert "'rank' alone, asked about the whole catalogue, would do better" in found[0]
    assert "(-5.0 points [-6.0, -4.0])" in found[0]
    assert "Widen the stages before it" in found[0]


def test_a_pipeline_without_a_scorer_has_no_verdict_and_no_remark_about_it():
    plain = said(verdict={"answer": "undecided", "accuracy": None, "why": "others count"})
    assert plain == said(verdict=None) == said()


def test_more_candidates_that_make_it_worse_mean_a_ranker_that_adds_noise():
    found = said(knobs=[knob("covisit", "limit", "400", -0.03, candidates=300.0)])
    assert "More candidates make the slate worse: limit = 400 at 'covisit' gave -3.0 points" in found[0]
    assert 'negatives = "candidates"' in found[0]
    fewer = said(knobs=[knob("covisit", "limit", "20", -0.03, candidates=30.0)])
    assert not any("More candidates" in one for one in fewer)


def test_a_ranker_that_is_lost_in_the_whole_catalogue_adds_noise_too():
    found = said(verdict=verdict("helps", 0.05))
    assert "'rank' needs the stages before it" in found[0]


def test_a_search_that_costs_nothing_needs_no_larger_beam():
    account = {"wanted": 400, "found": 200, "model": 199, "search": 3, "lucky": 2}
    assert any("A larger beam will not help" in one for one in said(trees={"oak": {"account": account}}))
    account = {**account, "search": 4}  # one in a hundred
    assert not any("beam" in one for one in said(trees={"oak": {"account": account}}))


SHIFT = {"level": "large", "auc": 0.85, "recall_training": 0.5, "recall_serving": 0.7, "few": False}


def test_a_large_shift_asks_for_training_on_what_is_served():
    found = said(shift={"rank": SHIFT})
    assert "'rank' learned on other candidates than it is served (large)" in found[0]
    assert "0.85" in found[0]
    assert "Train again with the nominators and cuts that serve now." in found[0]
    for quiet in ({"level": "small"}, {"few": True}):
        assert said(shift={"rank": SHIFT | quiet}) == said()


def test_slates_that_all_begin_alike_ring_the_alarm_first():
    found = said(coverage={"collapse": True, "first_share": 0.4}, verdict=verdict("hurts", -0.05))
    assert found[0].startswith("Alarm: 40.0% of all slates begin with the same item.")
    assert said(coverage={"collapse": False, "first_share": 0.1}) == said()


def test_recall_below_a_tenth_warns_of_harmonised_training():
    found = said(shift={"rank": SHIFT | {"level": "small", "recall_training": 0.05}})
    assert "Only 5.0% of the wanted items were among the candidates that 'rank' learned from" in found[0]
    assert '"harmonised" is not advised' in found[0]


def odds(says, comes_true, **more):
    bins = [{"confidence": says, "accuracy": comes_true, "count": 10}]
    return {"ece": abs(says - comes_true), "temperature": 2.0, "bins": bins, "after": {"ece": 0.01}, **more}


def about(one):
    return " ".join(said(calibration={"rank": one}))


def test_odds_that_are_off_are_told_with_their_direction():
    assert "'rank' is too sure of itself: of its first choices it says 60.0%" in about(odds(0.6, 0.2))
    assert "'rank' promises less than comes true" in about(odds(0.1, 0.5))
    assert "first choices" not in about(odds(0.51, 0.5))
    assert "first choices" not in about(odds(0.6, 0.5, by_chance=0.2))


def test_a_factor_is_advised_only_where_it_mends_the_odds():
    assert "Divide its scores by 2.00" in about(odds(0.6, 0.2))
    assert "a mere factor does not mend it" in about(odds(0.6, 0.2, after={"ece": 0.39}))
    assert "a mere factor does not mend it" in about(odds(0.6, 0.2, after=None, temperature=None))


def test_a_sentence_in_place_of_numbers_is_no_scorer():
    assert said(shift={"why": "no record"}, calibration={"why": "no scorer"}) == said()


def test_the_first_stage_that_runs_short_is_named():
    told = made_up()
    told["stages"][2]["short"] = 7
    told["stages"][3]["short"] = 9
    found = [one for one in remarks(told) if "fewer candidates than places" in one.what]
    assert [one.stage for one in found] == ["rank"]
    assert "in 7 requests" in found[0].what


def test_a_nominator_that_nobody_misses_can_go():
    assert "Nobody would miss 'popular': without 'popular' -0.1 points [-0.4, +0.2]." in said()[-1]


def test_nominators_that_cover_for_each_other_are_not_all_sent_away():
    without = {"named": 1, "alone": 0, "without": between(0.0, 0.002)}
    found = said(nominators={"a": without, "b": without})[-1]
    assert found.startswith("No single nominator would be missed")
    assert "One at a time" in found


def test_only_the_last_scorers_odds_are_spoken_of():
    assert said(calibration={"first": odds(0.6, 0.2), "rank": odds(0.5, 0.5)}) == said()


def test_a_wide_interval_around_nothing_does_not_make_a_nominator_idle():
    unsure = {**made_up()["nominators"], "popular": {"named": 1, "alone": 0, "without": between(0.0, 0.05)}}
    assert said(nominators=unsure) == []


def test_a_nominator_that_does_harm_is_told_so_and_a_lone_one_stays():
    harm = {**made_up()["nominators"], "popular": {"named": 1, "alone": 0, "without": between(0.03)}}
    assert "The funnel is even better without 'popular'." in said(nominators=harm)[-1]
    assert said(nominators={"popular": harm["popular"]}) == []


def test_a_ranker_that_learned_against_candidates_is_not_told_to_do_so():
    wider = [knob("covisit", "limit", "400", -0.03, candidates=300.0)]
    found = said(knobs=wider, training={"rank": {"negatives": "candidates"}})
    assert "It learned against candidates already" in found[0]
    assert "Train it against" in said(knobs=wider, training={"rank": {"negatives": "catalogue"}})[0]


def test_a_funnel_that_orders_nothing_by_who_asks_is_not_told_to_mend_its_scorer():
    bare = [stage for stage in made_up()["stages"] if stage["kind"] != "scorer"]
    found = said(stages=bare, verdict=None, coverage={"collapse": True, "first_share": 0.4})
    assert "add a nominator that looks at histories" in found[0]
    assert "Look at the last scorer" in said(coverage={"collapse": True, "first_share": 0.4})[0]
