"""The threshold of activity: trials with several thresholds, and the choice that gains most on validation events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shortlist.data import HeldOut
from shortlist.progress import note
from shortlist.train.two_time_scale.threshold import FEW_EVENTS, Choice, candidates, choose_threshold
from shortlist.train.two_time_scale.untrained import NOBODY
from shortlist.train.two_time_scale.validation import EventRanks

if TYPE_CHECKING:  # trainings choose thresholds
    from shortlist.train.two_time_scale.training import Training

ACTIVE_SHARE = 0.1  # of the time limit, for active users; the trials together have as much again


def chosen_threshold(training: "Training") -> int:
    """The threshold whose users gain most from vectors of their own, in sum over their validation events.

    A recurrence that is trained for users with few events trusts their vectors little, also those of users with many.
    So there is a trial with every second candidate, and each measures all thresholds above its own too.
    """
    bins = candidates(training.events.lengths)
    if training.trainer.personal != "own":
        return bins[len(bins) // 2] if bins else NOBODY
    tried = bins[::2]
    choices = [one for least in tried if (one := _choice(training, least, bins, len(tried))) is not None]
    if not choices:
        return NOBODY
    best = max(choices, key=lambda one: one.total)  # of equal ones that with the lowest threshold
    text = f"gain of own vectors by training events: {best}"
    note(training.data.progress, training.trainer.title, text)
    return NOBODY if best.threshold is None else best.threshold


def _choice(training: "Training", least: int, bins: Sequence[int], trials: int) -> Choice | None:
    """The choice of a trial in which users with more than `least` events are active; None with few events."""
    requests = _known(training, least)
    if requests is None:
        return None
    model = training.grouped(least, f"trial-{least}-", ACTIVE_SHARE / trials)
    own, new = (EventRanks(model, requests, as_new, training.repeats) for as_new in (False, True))
    counts = training.events.lengths[own.users]
    return choose_threshold(1 / own(), 1 / new(), counts, [one for one in bins if one >= least])


def _known(training: "Training", least: int) -> HeldOut | None:
    """Validation requests of users who may be active; None without enough events."""
    requests = training.valid(training.events.lengths > least)
    many = requests is not None and int((requests.stops - requests.cuts).sum()) >= FEW_EVENTS
    return requests if many else None
