"""The second stage of two-time-scale users: vectors of active users, and the recurrences of both groups."""
