"""Models that score the candidates of a ranker."""
