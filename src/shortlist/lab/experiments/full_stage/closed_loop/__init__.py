"""The closed loop of full-stage learning to rank: retrieval arms that are trained from their own logs."""
