"""Progress: told before the first thing and after each."""

from shortlist.progress import silent, told


def test_progress_is_told_before_the_first_thing_and_after_each():
    heard = []
    for thing in told(["a", "b"], "spelling", lambda *said: heard.append(said)):
        heard.append(thing)
    assert heard == [("spelling", 0, 2), "a", ("spelling", 1, 2), "b", ("spelling", 2, 2)]


def test_nothing_to_do_is_told_as_nothing_of_nothing():
    heard = []
    assert list(told([], "resting", lambda *said: heard.append(said))) == []
    assert heard == [("resting", 0, 0)]


def test_silence_changes_nothing():
    assert list(told(range(3), "counting", silent)) == [0, 1, 2]


def test_whoever_stops_early_is_told_no_further():
    heard = []
    for thing in told("abc", "spelling", lambda *said: heard.append(said[1])):
        if thing == "b":
            break
    assert heard == [0, 1]
