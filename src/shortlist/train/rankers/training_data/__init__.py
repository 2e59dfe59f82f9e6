"""The training data of rankers: requests out of fold, their candidates, and lists to rank."""
