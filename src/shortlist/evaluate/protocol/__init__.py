"""What must be equal for two numbers to be comparable: held-out users, metrics, baselines and rules."""
