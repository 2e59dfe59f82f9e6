"""Every switch of tree training in one place: methods and profiles are lists of differences."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from shortlist.errors import ConfigError

CHOICES: Mapping[str, tuple[str, ...]] = {
    "vectors": ("met", "random"),
    "order": ("category", "category-sorted", "random", "vectors"),
    "leaf_vectors": ("slot", "item"),
    "scorer": ("attention", "mlp", "linear"),
    "history": ("ancestor", "item"),
    "pool": ("sum", "mean"),
    "norm": ("none", "layer", "batch"),
    "output": ("linear", "bn_prelu"),
    "instances": ("every", "last"),
    "sampler": ("tree", "uniform", "all", "siblings", "beam"),
    "start": ("exact", "root"),
    "correction": ("exact", "released"),
    "loss": ("softmax", "binary", "margin", "hinge"),
    "reduction": ("sum", "mean"),
    "levels": ("useful", "all"),
    "labels": ("plain", "rectified", "model"),
    "rectify": ("strict", "one_step", "normalised"),
    "update": ("none", "dtr", "jtm", "tdm"),
    "priority": ("count", "regret", "score"),
    "optimizer": ("adamw", "adam"),
    "lr_schedule": ("cosine", "exponential", "none"),
    "precision": ("auto", "float32", "bfloat16"),
}
POSITIVE = (
    "ahead",
    "negatives",
    "stride",
    "cap",
    "rounds",
    "steps",
    "batch_size",
    "fade_steps",
    "beam",
    "judge_every",
)


@dataclass(frozen=True)
class TreePlan:
    """How a tree and its scorer are made; the defaults are the sound variant of DTR with tree-based sampling.

    Where the paper and its published code differ, the field's comment names the difference by its number in the
    list of the guide (D1 to D16).
    """

    # the tree
    branch: int = 2  # D16; 0 = one level, every item a child of the root
    order: str = "category"  # D11
    spare: float = 0.0
    leaf_vectors: str = "item"  # whose vector a leaf carries when items move
    # the scorer
    scorer: str = "attention"
    width: int = 24
    hidden: int = 36
    layers: tuple[int, ...] = (128, 64, 24)  # D15
    windows: tuple[int, ...] = (20, 20, 10, 10, 2, 2, 2, 1, 1, 1)
    history: str = "ancestor"  # D4
    pool: str = "sum"
    norm: str = "layer"
    output: str = "linear"  # D5
    dropout: float = 0.0
    spread: float = 0.3
    vectors: str = "met"  # of nodes before training: from who met what, or random as in the paper
    # the examples
    instances: str = "every"  # D8
    min_history: int = 14
    ahead: int = 1  # the label is one of so many next events
    forget: float = 0.0  # share of a history that is left out at random while training
    # negatives
    sampler: str = "tree"
    negatives: int = 70
    start: str = "exact"  # D3
    correction: str = "exact"  # D2
    taught_beam: int = 0  # of the sampler "beam"; 0 = as wide as the search
    mix: float = 0.1  # share of uniform choices in tree-based sampling
    alpha: float = 0.0  # how much more deep levels are sampled, uniform sampling only
    # the loss
    loss: str = "softmax"
    reduction: str = "sum"  # D7
    levels: str = "useful"  # or all: those too that never decide anything at this beam
    labels: str = "plain"
    rectify: str = "strict"  # D1
    sasrec_width: int = 64  # D13: of the model that estimates probabilities
    # updates of the tree
    update: str = "dtr"
    stride: int = 7
    cap: int = 100  # instances per item that vote in an update
    priority: str = "count"  # D6
    sticky: float = 0.0
    guard: bool = True
    improve: bool = True  # items change places while that gains, after they were served
    # optimisation
    rounds: int = 6  # D12: an update lies between two rounds
    steps: int = 2000
    batch_size: int = 250
    learning_rate: float = 5e-3
    weight_decay: float = 1e-4
    optimizer: str = "adamw"
    amsgrad: bool = False
    warmup: int = 200
    lr_schedule: str = "cosine"
    fade_steps: int = 15_000  # of the exponential
    restart: bool = False  # a fresh optimizer and schedule in every round
    clip: float = 5.0
    precision: str = "auto"
    recorded: bool = True  # a step is recorded and replayed: on a GPU, without dropout and without `compiled`
    compiled: bool = False  # torch.compile on the layers, after some seconds of start
    # search and choice
    beam: int = 150
    product: bool = False  # a node's value is the product of the probabilities on its path
    judge_every: int = 1000
    patience: int = 0  # judgements without a better one before training ends; 0 = never

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(
                    f"tree plan: {name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        for name in POSITIVE:
            if getattr(self, name) < 1:
                raise ConfigError(f"tree plan: {name} must be 1 or more, got {getattr(self, name)}")
        for name in ("layers", "windows"):
            if not getattr(self, name) or min(getattr(self, name)) < 1:
                raise ConfigError(
                    f"tree plan: {name} must be one whole number or more, each 1 or more, got {getattr(self, name)}"
                )
        if self.branch != 0 and self.branch < 2:
            raise ConfigError(f"tree plan: branch must be 2 or more, or 0 for one level, got {self.branch}")
        if self.taught_beam < 0:
            raise ConfigError(f"tree plan: taught_beam must be 0 or more, got {self.taught_beam}")
        if self.labels == "model" and self.loss != "binary":
            raise ConfigError(f"tree plan: labels 'model' need the loss 'binary', got {self.loss!r}")

    @property
    def total(self) -> int:
        """Steps in all rounds."""
        return self.rounds * self.steps


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
        "learning_rate": 1e-3,  # smaller, for it goes on from a scorer that JTM taught
    },
    "plt": {"loss": "binary", "sampler": "siblings", "product": True, "update": "none", "levels": "all"},
    "din": {"branch": 0, "sampler": "uniform", "update": "none", "levels": "all"},
}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "sound": {},
    "paper": {
        "vectors": "random",
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
        "improve": False,
        "rounds": 13,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "optimizer": "adam",
        "warmup": 0,
        "lr_schedule": "exponential",
    },
    "released": {
        "vectors": "random",
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
        "sticky": 1.0,
        "guard": False,
        "improve": False,
        "rounds": 12,
        "steps": 80_000,
        "batch_size": 100,
        "learning_rate": 1e-3,
        "weight_decay": 1e-2,
        "optimizer": "adam",
        "amsgrad": True,
        "warmup": 5000,
        "lr_schedule": "exponential",
        "fade_steps": 15_000,
        "restart": True,
        "clip": 0.0,
        "cap": 1_000_000,
    },
}


def plan_of(method: str = "dtr-t-rl", profile: str = "sound", **given: Any) -> TreePlan:
    """The plan of a method under a profile; what is given outranks the method, the method its profile."""
    for what, name, known in (("method", method, METHODS), ("profile", profile, PROFILES)):
        if name not in known:
            raise ConfigError(f"tree plan: {what} must be one of {', '.join(known)}, got {name!r}")
    names = {one.name for one in fields(TreePlan)}
    if unknown := sorted(set(given) - names):
        raise ConfigError(
            f"tree plan: unknown {', '.join(unknown)}; expected one of {', '.join(sorted(names))}"
        )
    plan = replace(TreePlan(), **{**PROFILES[profile], **METHODS[method], **given})
    if profile == "sound" and "warmup" not in given:
        plan = replace(
            plan, warmup=min(plan.warmup, plan.total // 5)
        )  # short lessons are no warm-up as a whole
    return plan
