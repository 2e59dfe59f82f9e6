"""Lines of progress without a terminal: few, with the share, the metric and the time that is left."""

import itertools

import pytest

from shortlist.cli.console.progress_lines import ProgressLines, in_words
from shortlist.progress import Labelled, note


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def display():
    clock, lines = Clock(), []
    return ProgressLines(lines.append, clock), clock, lines


def test_a_line_says_share_epoch_metric_time_and_what_is_left(display):
    show, clock, lines = display
    show("sasrec", 0, 600)
    note(show, "sasrec", "epoch 3 of 60, recall@20 0.1230")
    clock.now = 40.0
    show("sasrec", 60, 600)
    assert lines == ["sasrec: 10 %, epoch 3 of 60, recall@20 0.1230, 40 s, about 6 min left"]


def test_a_line_comes_every_ten_seconds_and_less_often_in_a_long_task(display):
    show, clock, lines = display
    times = []
    for second in range(3600):
        clock.now = float(second)
        before = len(lines)
        show("long", second, 3600)
        times += [second] * (len(lines) - before)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert times[0] == 10
    assert min(gaps) == 10
    assert gaps == sorted(gaps)
    assert gaps[-1] > 200
    assert len(lines) < 60


def test_quick_work_writes_nothing(display):
    show, clock, lines = display
    for second in range(9):
        clock.now = float(second)
        show(f"task {second}", 0, 1)
        show(f"task {second}", 1, 1)
    assert lines == []


def test_many_short_tasks_are_shown_every_ten_seconds(display):
    show, clock, lines = display
    for second in range(0, 60, 3):
        clock.now = float(second)
        show(f"task {second}", 1, 4)
    assert [line.split(":")[0] for line in lines] == ["task 12", "task 24", "task 36", "task 48"]


def test_a_task_that_was_shown_is_shown_at_its_end_once(display):
    show, clock, lines = display
    show("reading", 0, 4)
    clock.now = 20.0
    show("reading", 2, 4)
    clock.now = 21.0
    for _ in range(3):
        show("reading", 4, 4)
    assert lines == ["reading: 50 %, 20 s, about 20 s left", "reading: 100 %, 21 s"]


def test_a_resumed_task_estimates_from_its_own_steps(display):
    show, clock, lines = display
    show("sasrec", 500, 600)
    clock.now = 50.0
    show("sasrec", 550, 600)
    assert lines == ["sasrec: 92 %, 50 s, about 50 s left"]


def test_labels_are_kept_in_lines_and_notes(display):
    show, clock, lines = display
    labelled = Labelled(show, "refit: ")
    labelled("mf", 0, 10)
    note(labelled, "mf", "epoch 1 of 10")
    clock.now = 10.0
    labelled("mf", 1, 10)
    assert lines == ["refit: mf: 10 %, epoch 1 of 10, 10 s, about 90 s left"]


def test_control_characters_of_a_name_are_visible(display):
    show, clock, lines = display
    show("a\x1b[31m", 0, 10)
    clock.now = 10.0
    show("a\x1b[31m", 1, 10)
    assert "\x1b" not in lines[0]


def test_durations_in_words():
    assert [in_words(one) for one in (3, 99, 360, 9000)] == ["3 s", "99 s", "6 min", "2.5 h"]
