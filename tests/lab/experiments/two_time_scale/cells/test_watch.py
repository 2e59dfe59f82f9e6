"""The watch of trainings."""

from shortlist.lab.experiments.two_time_scale.cells.watch import Point, Watch


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_seconds_of_evaluation_are_left_out():
    clock = Clock()
    watch = Watch(clock)
    watch.begin()
    clock.now = 2.0
    watch("first", 1, 2)  # 2 s of training
    clock.now = 7.0
    watch.validated(0.5)  # 5 s of evaluation
    clock.now = 8.0
    watch("first", 2, 2)
    clock.now = 11.0
    watch("second", 1, 1)
    assert watch.stages == {"first": 3.0, "second": 3.0}
    assert watch.seconds == 6.0


def test_a_point_has_the_seconds_of_training_before_it():
    clock = Clock()
    watch = Watch(clock)
    watch.begin()
    clock.now = 1.0
    watch("one", 1, 1)
    clock.now = 5.0
    watch.measured(0.25)
    clock.now = 6.0
    watch("two", 1, 1)
    watch.measured(0.5)
    assert watch.points == [Point("one", 1.0, 0.25), Point("two", 2.0, 0.5)]


def test_a_copy_goes_on_alone():
    watch = Watch(Clock(), stages={"one": 4.0})
    copy = watch.copy()
    copy.begin()
    copy.clock.now = 1.0
    copy("two", 1, 1)
    assert (watch.seconds, copy.seconds) == (4.0, 5.0)
