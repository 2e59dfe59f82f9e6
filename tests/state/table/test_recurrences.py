"""The model on arrays: groups, sequences, and weights that are no numbers."""

import numpy as np
import pytest
import torch

from shortlist.errors import ArtifactError
from shortlist.state.table.recurrences import Recurrences, joined, taken, without_unknown
from tests.state.live_world import WIDTH, model


@pytest.mark.parametrize("readout", ["plain", "plus", "anchored"])
def test_both_groups_have_their_own_recurrence(readout):
    which = model(readout)
    own = Recurrences(which, "fp32")
    rows = np.array([0, 1, -1, 3])
    active, personal = own.active(rows), own.personal(rows)
    assert active.tolist() == [False, True, False, True]
    states = own.starts(active, personal)
    lists = [[1, 2], [3], [], [4, 5, 6]]
    starts, items = joined([np.array(one, np.int32) for one in lists])
    found, _ = own.run(states, active, personal, starts, items)
    with torch.no_grad():
        for at, (row, one) in enumerate(zip(rows.tolist(), lists, strict=True)):
            users = torch.tensor([row])
            state = which.starts(users)
            for item in one:
                state = which.step(state, torch.tensor([item]), users)
            np.testing.assert_allclose(found[at], state[0].numpy(), atol=1e-5)
            last = torch.tensor(one[-1:] or [-1])
            expected = which.readout(state, last, users)[0].numpy()
            read = own.readout(found, np.array([one[-1] if one else -1 for one in lists]), active, personal)
            np.testing.assert_allclose(read[at].numpy(), expected, atol=1e-5)


def test_sequences():
    starts, items = joined([np.array(one, np.int32) for one in ([1, -1], [], [2, 3, -1])])
    assert (starts.tolist(), items.tolist()) == ([0, 2, 2, 5], [1, -1, 2, 3, -1])
    own, places = taken(starts, np.array([2, 0]))
    assert (own.tolist(), items[places].tolist()) == ([0, 3, 5], [2, 3, -1, 1, -1])
    known, left = without_unknown(starts, items)
    assert (known.tolist(), left.tolist()) == ([0, 1, 1, 3], [1, 2, 3])
    assert joined([])[0].tolist() == [0]


@pytest.mark.parametrize("name", ["items", "own", "start"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(name, value):
    which = model()
    with torch.no_grad():
        getattr(which, name).view(-1)[WIDTH - 1] = value
    with pytest.raises(ArtifactError, match=f"{name} of the model holds NaN"):
        Recurrences(which, "fp32")
