"""Experiments with tree indexes: the tables and figures of the DTR paper."""
