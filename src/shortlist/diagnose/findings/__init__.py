"""Findings: rule-based sentences about a diagnosis."""
