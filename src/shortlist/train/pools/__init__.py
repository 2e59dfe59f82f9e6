"""Item pools of several nominators: who nominates what, and which examples each learns from.

`fit_sgd` and `fit_em` train a mixture of nominators on triples of context, item and reward; `distil` makes pools of its
gate, and `finetune` trains its experts on them. All of them work on the device of the triples.
"""

from shortlist.train.pools.calibrate import calibrate
from shortlist.train.pools.distil import distil, pools_from_gate
from shortlist.train.pools.finetune import FineTuned, finetune, with_pools
from shortlist.train.pools.fitting.fit_em import EMFit, fit_em, linear_experts
from shortlist.train.pools.fitting.fit_sgd import PoolFit, fit_sgd
from shortlist.train.pools.fitting.number import NumberFit, fit_number, prune
from shortlist.train.pools.fitting.settings import PoolTraining
from shortlist.train.pools.fitting.triples import Triples
from shortlist.train.pools.weights import Nominations, WeightRule

__all__ = [
    "EMFit",
    "FineTuned",
    "Nominations",
    "NumberFit",
    "PoolFit",
    "PoolTraining",
    "Triples",
    "WeightRule",
    "calibrate",
    "distil",
    "finetune",
    "fit_em",
    "fit_number",
    "fit_sgd",
    "linear_experts",
    "pools_from_gate",
    "prune",
    "with_pools",
]
