"""The grammar of pipelines: five kinds of stages, and three operators to put them together.

    tree % 500 + popular % 50 >> Seen() >> rank % 50 >> Diverse(0.3) % 10

`a + b` pools nominators, `a % k` lets at most k through, `a >> b` is a then b. Python binds `%` tighter than `+`
and `+` tighter than `>>`, so a pipeline needs no parentheses.

A kind returns only what it owns: a filter returns a mask, a scorer returns scores, a selector returns positions.
A filter therefore cannot reorder candidates, and a scorer cannot drop them.
"""

from shortlist.grammar.kinds import Filter, Hydrator, Nominator, PoolScores, Scorer, Selector
from shortlist.grammar.knob import Knob
from shortlist.grammar.stage import KINDS, Pipeline, Pool, Stage, Top, bare, kind_of
from shortlist.grammar.walk import as_pipeline, leaves, map_leaves

__all__ = [
    "KINDS",
    "Filter",
    "Hydrator",
    "Knob",
    "Nominator",
    "Pipeline",
    "Pool",
    "PoolScores",
    "Scorer",
    "Selector",
    "Stage",
    "Top",
    "as_pipeline",
    "bare",
    "kind_of",
    "leaves",
    "map_leaves",
]
