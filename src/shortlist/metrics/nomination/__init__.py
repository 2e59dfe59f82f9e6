"""What several nominators find together: coverage of positives, split of a budget, attribution, overlap."""
