"""Worlds from ratings: MovieLens with its missing ratings completed, and the fully observed block of Jester."""
