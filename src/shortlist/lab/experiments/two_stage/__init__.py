"""two_stage."""
