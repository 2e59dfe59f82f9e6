"""Settings of a pipeline changed and measured: knobs, sizes within a latency budget, and retraining."""
