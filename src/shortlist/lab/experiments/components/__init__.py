"""Two-stage systems by component: nominators, pools and the split of a budget."""
