"""New events into an old bundle."""
