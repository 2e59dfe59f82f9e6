"""Mathematics of a funnel: GPRP oracles, metrics over several stages, selection models of a full-stage log."""
