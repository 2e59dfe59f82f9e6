"""Events of users: what one is, batches of them, and the log behind the states."""
