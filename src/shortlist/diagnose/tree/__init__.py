"""Diagnosis of trees: order of node scores, losses of beam search, labels, negatives, categories."""
