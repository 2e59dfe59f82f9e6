"""The states of users can be imported from the room of feedback too."""

from shortlist import state as room
from shortlist.feedback import state


def test_names_are_those_of_the_room_of_states():
    assert set(state.__all__) == set(room.__all__)
    assert all(getattr(state, name) is getattr(room, name) for name in state.__all__)
