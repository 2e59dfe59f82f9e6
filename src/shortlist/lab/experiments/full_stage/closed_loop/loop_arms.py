"""The arms of the closed loop: how the scores of retrieval are made, round after round."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

from shortlist.lab.experiments.full_stage.arms import ONE_POSITIVE, SOFT_SORT, Arm
from shortlist.lab.experiments.full_stage.closed_loop.oracles import (
    oracle_gprp7,
    oracle_prp,
    oracle_slot_price,
)
from shortlist.lab.experiments.full_stage.closed_loop.sizes import LoopSize
from shortlist.lab.experiments.full_stage.closed_loop.slot_price import learned_slot_price
from shortlist.lab.experiments.full_stage.closed_loop.train_retrieval import train_retrieval
from shortlist.simulate.full_stage.closed_loop import LoopState, Retrain, random_scores
from shortlist.train.objectives.stage_log import StageLog

ALL_STAGES = ((4, 1), (3, 1), (2, 1), (1, 1), (0, 2))  # (S, negatives): 4 = shown without positive feedback
CATALOGUE = ((0, 6),)
OBJECTIVES = {
    "BPR": Arm("BPR", "bpr", CATALOGUE),
    "SSM": Arm("SSM", "ssm", CATALOGUE),
    "FS-RN": Arm("FS-RN", "ranknet", ALL_STAGES),
    "FS-LR": Arm("FS-LR", "lambdarank", ALL_STAGES),
    "LCRON": Arm("LCRON", "lcron", ALL_STAGES, {"tau": SOFT_SORT}, cuts=ONE_POSITIVE),
}
"""Arms that learn an order, all with six negatives."""
RANDOM = "random"
SLOT_PRICES = {
    "slot price": "mean",
    "slot price, lowest": "lowest",
}  # arms with learned p and r, and their price
ORACLES = ("oracle PRP", "oracle (7)", "oracle slot price")
FROZEN = ("frozen SSM", "frozen FS-RN")
ARMS = (RANDOM, *FROZEN, *OBJECTIVES, *SLOT_PRICES, *ORACLES)

Make = Callable[[LoopSize, int], Retrain]


@dataclass(frozen=True)
class Trained:
    """Retrieval that is trained from the log, in every round or in the first one only."""

    arm: Arm
    size: LoopSize
    seed: int
    once: bool = False

    def __call__(self, log: StageLog, state: LoopState) -> Tensor | None:
        if self.once and state.number:
            return None
        settings, device = state.settings, state.world.device
        return train_retrieval(
            log, self.arm, self.size.budget, settings.channel_sizes[0], self.seed + state.number, device
        )


def make_retrain(name: str, size: LoopSize, seed: int) -> Retrain:
    """The function that makes the scores of retrieval for an arm."""
    if name in OBJECTIVES:
        return Trained(OBJECTIVES[name], size, seed)
    if name in FROZEN:
        return Trained(OBJECTIVES[name.removeprefix("frozen ")], size, seed, once=True)
    if name in SLOT_PRICES:
        return lambda log, state: learned_slot_price(log, state, size.budget, seed, SLOT_PRICES[name])
    others: Mapping[str, Retrain] = {
        RANDOM: lambda log, state: random_scores(state.world, state.number),
        "oracle PRP": oracle_prp,
        "oracle (7)": lambda log, state: oracle_gprp7(log, state, size.passes),
        "oracle slot price": lambda log, state: oracle_slot_price(log, state, size.passes),
    }
    return others[name]
