"""Places of the pool experiment: a star of settings around a centre."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

POWER_LAW, EURLEX = "power-law", "eurlex"


@dataclass(frozen=True)
class Point:
    """Examples per arm, width of item vectors, features and number of nominators, and the world.

    With `blocks` nominator n reads the features of block n instead of a random subset.
    """

    world: str = POWER_LAW
    examples: int = 1000  # c
    width: int = 10  # d_e
    subset: int = 100  # s
    nominators: int = 10  # N
    kappa: float = 1.0
    blocks: bool = False

    def __str__(self) -> str:
        kappa = f",kappa={self.kappa:g}" if self.world == POWER_LAW else ""
        masks = ",blocks" if self.blocks else ""
        return f"{self.world},c={self.examples},d_e={self.width},s={self.subset},N={self.nominators}{kappa}{masks}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Sweep:
    """Points that differ in one setting."""

    name: str
    setting: str
    points: tuple[Point, ...]

    def __iter__(self) -> Iterator[tuple[float, Point]]:
        return ((float(getattr(one, self.setting)), one) for one in self.points)


@dataclass(frozen=True)
class Grid:
    """The sweeps of a profile, and what else is measured at the centre."""

    centre: Point
    sweeps: tuple[Sweep, ...]
    mitigated: tuple[Point, ...]  # points at which all variants of the MoE are trained
    tabled: tuple[Point, ...] = ()  # further points of which everything is listed

    @property
    def points(self) -> tuple[Point, ...]:
        """Every point once, the centre first."""
        swept = [one for sweep in self.sweeps for one in sweep.points]
        return tuple(dict.fromkeys([self.centre, *swept]))


def sweep(centre: Point, setting: str, values: Sequence[float], name: str) -> Sweep:
    """The centre with other values of a setting."""
    return Sweep(name, setting, tuple(replace(centre, **{setting: value}) for value in sorted(values)))  # type: ignore[arg-type]


def star(world: str) -> Grid:
    """One setting at a time around c=1000, d_e=10, s=100, N=10; width and features once more at c=100.

    In the simulated world also with nominators that read the features of one block each.
    """
    centre = Point(world)
    few = replace(centre, examples=100)
    sweeps = [
        sweep(centre, "examples", (100, 500, 1000, 5000), "c"),
        sweep(centre, "width", (5, 10, 25, 50), "d_e"),
        sweep(centre, "subset", (10, 25, 50, 100, 200, 400), "s"),
        sweep(centre, "nominators", (10, 20), "N"),
        sweep(few, "width", (5, 10, 50), "d_e at c=100"),
        sweep(few, "subset", (10, 25, 100, 400), "s at c=100"),
    ]
    if world == EURLEX:
        return Grid(centre, tuple(sweeps), (centre, few))
    own = replace(centre, subset=40, blocks=True)
    sweeps.append(sweep(centre, "kappa", (0.0, 0.5, 1.0), "kappa"))
    sweeps.append(sweep(own, "examples", (100, 500, 1000, 5000), "c with blocks"))
    return Grid(centre, tuple(sweeps), (centre, few), (own,))


def small_star(world: str) -> Grid:
    """A few points of a small world."""
    centre = Point(world, examples=60, width=4, subset=10, nominators=4)
    sweeps = [sweep(centre, "examples", (20, 60), "c")]
    if world == EURLEX:
        return Grid(centre, tuple(sweeps), ())
    own = replace(centre, subset=5, blocks=True)
    sweeps.append(sweep(centre, "kappa", (0.0, 1.0), "kappa"))
    sweeps.append(sweep(own, "examples", (60,), "c with blocks"))
    return Grid(centre, tuple(sweeps), (centre,), (own,))
