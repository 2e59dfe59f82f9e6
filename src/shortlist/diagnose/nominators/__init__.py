"""Several nominators side by side: what each finds, what only it finds, what it costs, and a better split."""
