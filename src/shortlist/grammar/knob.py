"""What can be changed about a trained stage without training it again."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Knob:
    """A setting of a stage that can be changed without training, its current value and which others to try.

    "scale": any size from `least` on, smaller or larger; "double": only larger; "off": only `Stage.switched_off`.
    """

    name: str
    value: float
    rule: Literal["scale", "double", "off"]
    least: int = 1
