"""All settings of tree training, each written once; methods and profiles are sets of overrides."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from shortlist.errors import ConfigError
from shortlist.models.nodes.config import CHOICES, ScorerConfig, ScorerSettings
from shortlist.nominate import TreeNominator
from shortlist.settings import Setting, check_settings, setting, settings_of


@dataclass(frozen=True)
class TreePlan(ScorerSettings):
    """Settings of a tree, its scorer (inherited) and their training; the defaults are DTR with tree-based sampling.

    Where the paper and its published code differ, a comment gives the number of the difference in the guide's list
    (D1 to D16).
    """

    where: ClassVar[str] = "tree plan"

    # the tree
    branch: int = setting(
        2, "Children of a node; 0: one level, every item below the root.", least=0, most=1e9
    )  # D16
    order: str = setting(  # D11
        "category",
        "Order of the items in the first tree.",
        choices=("category", "category-sorted", "random", "vectors"),
    )
    spare_leaves: float = setting(
        0.0, "Free leaves for new items, as a share of the items.", least=0, most=100
    )
    leaf_vectors: str = setting(
        "item", "Whether a leaf's embedding belongs to its slot or to its item.", choices=("slot", "item")
    )
    # the scorer, besides the inherited settings (D4: history, D5: output, D15: layers)
    scorer: str = setting(ScorerConfig.kind, "Model that scores nodes.", choices=CHOICES["kind"])
    spread: float = 0.3  # results of trees were measured with 0.3; the model DIN keeps 0.1
    embedding_init: str = setting(
        "pifa",
        "Initial node embeddings: PIFA (factorised user-item matrix), or random as in the paper.",
        choices=("pifa", "random"),
    )
    # training instances
    instances: str = setting(  # D8
        "every", "Training instances of a user: every position or the last.", choices=("every", "last")
    )
    min_history: int = setting(14, "Shortest history of a training instance.", least=1, most=10_000)
    ahead: int = setting(
        1,
        "The target is sampled from this many next events; 0: chosen on validation.",
        least=0,
        most=10_000,
    )
    history_dropout: float = setting(
        0.0, "Share of history items dropped at random in training.", least=0, most=0.95
    )
    # negatives
    sampler: str = setting(
        "tree", "Sampler of negative nodes.", choices=("tree", "uniform", "all", "siblings", "beam")
    )
    negatives: int = setting(70, "Negative nodes per level.", least=1, most=10_000_000)
    start: str = setting(  # D3
        "exact",
        "Where sampled paths start: softmax of the first large level, or root.",
        choices=("exact", "root"),
    )
    correction: str = setting(  # D2
        "exact",
        "Correction of sampled logits: exact, or as in the published code.",
        choices=("exact", "released"),
    )
    train_beam: int = setting(0, "Beam of the sampler `beam`; 0: that of the search.", least=0, most=1e9)
    mix: float = setting(0.1, "Share of uniform paths in tree-based sampling.", least=0, most=0.99)
    alpha: float = setting(
        0.0, "How much more deep levels are sampled; uniform sampling only.", least=0, most=1000
    )
    # the loss
    loss: str = setting("softmax", "Loss per level.", choices=("softmax", "binary", "margin", "hinge"))
    reduction: str = setting("sum", "Reduction of the loss over levels.", choices=("sum", "mean"))  # D7
    levels: str = setting(
        "useful", "Levels to train: those with more nodes than the beam, or all.", choices=("useful", "all")
    )
    labels: str = setting(
        "plain",
        "Node labels: all ancestors positive, rectified (DTR), or by the model's own beam (OTM).",
        choices=("plain", "rectified", "model"),
    )
    rectify: str = setting(  # D1
        "strict", "Variant of rectified labels.", choices=("strict", "one_step", "normalised")
    )
    sasrec_width: int = setting(  # D13
        64, "Width of the SASRec model that estimates probabilities for rectified labels.", least=2, most=8192
    )
    # updates of the tree
    update: str = setting("dtr", "Tree update between two rounds.", choices=("none", "dtr", "jtm", "tdm"))
    stride: int = setting(7, "Levels assigned at a time in an update.", least=1, most=64)
    instances_per_item: int = setting(
        100, "Training instances per item used in an update.", least=1, most=1e9
    )
    priority: str = setting(  # D6
        "count", "Which items choose first in an update.", choices=("count", "regret", "score")
    )
    stay_bonus: float = setting(
        0.0, "Bonus for staying at the old node, in nats per instance.", least=0, most=1e6
    )
    guard: bool = setting(True, "Keep the old assignment where the new one has a lower log-likelihood.")
    swaps: bool = setting(True, "Swap items after the assignment while that raises the log-likelihood.")
    # optimisation
    rounds: int = setting(
        6, "Training rounds; the tree is updated between two rounds.", least=1, most=10_000
    )  # D12
    steps: int = setting(2000, "Steps per round; `epochs` sets them too.", least=1, most=1e9)
    batch_size: int = setting(250, "Training instances per step.", least=1, most=1_000_000)
    learning_rate: float = setting(5e-3, "Peak learning rate.", least=1e-9, most=10)
    weight_decay: float = setting(1e-4, "Weight decay.", least=0, most=10)
    optimizer: str = setting("adamw", "Optimizer.", choices=("adamw", "adam"))
    amsgrad: bool = setting(False, "AMSGrad variant of the optimizer.")
    warmup: int = setting(200, "Steps of linear learning rate warm-up.", least=0, most=1e9)
    lr_schedule: str = setting(
        "cosine", "Learning rate after warm-up.", choices=("cosine", "exponential", "none")
    )
    lr_decay_steps: int = setting(
        15_000, "Time constant of the exponential schedule in steps.", least=1, most=1e9
    )
    restart: bool = setting(False, "Reset optimizer and schedule in every round.")
    clip: float = setting(5.0, "Gradient norm limit; 0: none.", least=0, most=1e9)
    precision: str = setting(
        "auto", "Arithmetic; auto: bfloat16 on a GPU.", choices=("auto", "float32", "bfloat16")
    )
    cuda_graph: bool = setting(
        True, "Replay steps as a CUDA graph; on a GPU, without dropout and `compiled`."
    )
    compiled: bool = setting(False, "torch.compile on the layers.")
    # search and early stopping
    beam: int = setting(TreeNominator.beam, "Beam of the search.", least=1, most=1e9)
    product: bool = setting(
        TreeNominator.product, "Rank leaves by the product of the probabilities on their path."
    )
    eval_every: int = setting(1000, "Steps between two evaluations on validation users.", least=1, most=1e9)
    patience: int = setting(
        0, "Evaluations without improvement before training stops; 0: never.", least=0, most=100_000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.branch == 1:
            raise ConfigError("tree plan: branch must be 2 or more, or 0 for one level, got 1")
        if self.labels == "model" and self.loss != "binary":
            raise ConfigError(f"tree plan: labels 'model' need the loss 'binary', got {self.loss!r}")

    @property
    def total(self) -> int:
        """Steps in all rounds."""
        return self.rounds * self.steps

    def check_device(self, device: str) -> None:
        """Refuse a precision that a kind of device lacks."""
        if self.precision == "bfloat16" and device == "cpu":
            raise ConfigError(
                "tree: precision 'bfloat16' needs a GPU, this is a CPU; use 'auto' or 'float32'"
            )


SETTINGS: tuple[Setting, ...] = settings_of(TreePlan)

METHODS: Mapping[str, Mapping[str, Any]] = {
    "dtr-u": {"sampler": "uniform"},
    "dtr-t": {},
    "dtr-t-rl": {"labels": "rectified"},
    "jtm": {"loss": "binary", "sampler": "uniform", "negatives": 6, "update": "jtm"},
    "tdm": {
        "loss": "binary",
        "sampler": "uniform",
        "negatives": 6,
        "update": "tdm",
        "rounds": 5,
    },
    "otm": {
        "loss": "binary",
        "sampler": "beam",
        "labels": "model",
        "update": "none",
        "learning_rate": 1e-3,  # lower: OTM fine-tunes a scorer trained by JTM
    },
    "plt": {"loss": "binary", "sampler": "siblings", "product": True, "update": "none", "levels": "all"},
    "din": {"branch": 0, "sampler": "uniform", "update": "none", "levels": "all"},
}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "sound": {},
    "paper": {
        "embedding_init": "random",
        "history": "item",
        "leaf_vectors": "item",
        "norm": "none",
        "output": "linear",
        "instances": "last",
        "start": "root",
        "mix": 0.0,
        "levels": "all",
        "reduction": "sum",
        "rectify": "strict",
        "sasrec_width": 24,
        "order": "category",
        "guard": False,
        "swaps": False,
        "rounds": 13,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "optimizer": "adam",
        "warmup": 0,
        "lr_schedule": "exponential",
    },
    "released": {
        "embedding_init": "random",
        "history": "ancestor",
        "leaf_vectors": "slot",
        "norm": "batch",
        "output": "bn_prelu",
        "dropout": 0.1,
        "spread": 1.0,
        "instances": "every",
        "start": "exact",
        "correction": "released",
        "mix": 0.0,
        "levels": "all",
        "reduction": "mean",
        "rectify": "one_step",
        "sasrec_width": 128,
        "order": "category-sorted",
        "priority": "score",
        "stay_bonus": 1.0,
        "guard": False,
        "swaps": False,
        "rounds": 12,
        "steps": 80_000,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "weight_decay": 1e-2,
        "optimizer": "adam",
        "amsgrad": True,
        "warmup": 5000,
        "lr_schedule": "exponential",
        "lr_decay_steps": 15_000,
        "restart": True,
        "clip": 0.0,
        "instances_per_item": 1_000_000,
    },
}


def plan_of(method: str = "dtr-t-rl", profile: str = "sound", **overrides: Any) -> TreePlan:
    """The plan of a method under a profile; overrides outrank the method, the method outranks the profile."""
    for what, name, known in (("method", method, METHODS), ("profile", profile, PROFILES)):
        if name not in known:
            raise ConfigError(f"tree plan: {what} must be one of {', '.join(known)}, got {name!r}")
    check_settings(overrides, SETTINGS, "tree plan")
    plan = replace(TreePlan(), **{**PROFILES[profile], **METHODS[method], **overrides})
    if profile == "sound" and "warmup" not in overrides:
        # A short training must not be warm-up alone.
        plan = replace(plan, warmup=min(plan.warmup, plan.total // 5))
    return plan
