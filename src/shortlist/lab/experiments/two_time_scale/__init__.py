"""Two-time-scale user representations: theory and simulation, and the paper's tables and figures."""
