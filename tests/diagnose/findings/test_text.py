from shortlist.diagnose.findings.text import around, counted, falls, listed, percent, points, rises, unbroken


def test_shares_are_said_in_hundreds_with_their_interval():
    assert percent(0.1234) == "12.3%"
    assert percent(None) == "–"
    assert around({"mean": 0.15, "low": 0.14, "high": 0.16}) == "15.0% [14.0%, 16.0%]"
    assert around({"mean": 0.15, "low": None, "high": None}) == "15.0%"
    assert around({"mean": None, "low": None, "high": None}) == "–"


def test_changes_are_said_in_points_with_a_sign():
    assert points({"mean": 0.021, "low": -0.0001, "high": 0.03}) == "+2.1 points [0.0, +3.0]"
    assert points({"mean": -0.021, "low": None, "high": None}) == "-2.1 points"
    assert points({"mean": None, "low": None, "high": None}) == "no number"


def test_a_change_is_sure_only_when_its_whole_interval_lies_on_one_side():
    assert rises({"low": 0.001, "high": 0.1})
    assert not rises({"low": 0.0, "high": 0.1})
    assert falls({"low": -0.1, "high": -0.001})
    assert not falls({"low": -0.1, "high": 0.0})
    nothing = {"low": None, "high": None}
    assert not rises(nothing)
    assert not falls(nothing)


def test_things_are_counted_as_one_or_many():
    assert counted(1, "user") == "1 user"
    assert counted(2000, "user") == "2,000 users"
    assert counted(0, "item lies", "items lie") == "0 items lie"


def test_names_are_listed_as_in_a_sentence():
    assert listed(["a"]) == "'a'"
    assert listed(["a", "b", "c"]) == "'a', 'b' and 'c'"


def test_what_belongs_together_is_not_broken_over_lines():
    assert unbroken("1.0% [0.5%, 1.5%]").split(" ") == ["1.0%\u00a0[0.5%,\u00a01.5%]"]
