"""Experiments by name: each returns a `Result`."""

from collections.abc import Callable, Mapping
from functools import partial

from shortlist.lab.experiments.components.budget.experiment import components_budget
from shortlist.lab.experiments.components.pools.fig5 import components_fig5
from shortlist.lab.experiments.components.regret.fig3 import components_fig3
from shortlist.lab.experiments.components.regret.fig4 import components_fig4
from shortlist.lab.experiments.components.regret.prop2 import components_prop2
from shortlist.lab.experiments.full_stage.ablations import ARMS as NEGATIVES
from shortlist.lab.experiments.full_stage.ablations import fsltr_negatives
from shortlist.lab.experiments.full_stage.assumptions import fsltr_assumptions
from shortlist.lab.experiments.full_stage.closed_loop.experiment import fsltr_closed_loop
from shortlist.lab.experiments.full_stage.recipes.experiment import fsltr_recipes
from shortlist.lab.experiments.full_stage.table3 import fsltr_table3
from shortlist.lab.experiments.models.auto_table import auto_table
from shortlist.lab.experiments.models.baselines import baselines_ml1m
from shortlist.lab.experiments.models.classic import classic_ml1m
from shortlist.lab.experiments.models.indexes import dtr_table2_indexes
from shortlist.lab.experiments.models.sasrec_time import sasrec_time
from shortlist.lab.experiments.models.sequence_sizes import sequence_sizes
from shortlist.lab.experiments.models.ties import ties
from shortlist.lab.experiments.models.world import demo_world
from shortlist.lab.experiments.trees.branches import bounds_fig1, dtr_fig5
from shortlist.lab.experiments.trees.fig3 import dtr_fig3
from shortlist.lab.experiments.trees.quality_time import dtr_time
from shortlist.lab.experiments.trees.sensitivity import dtr_fig4, dtr_fig6, dtr_fig8
from shortlist.lab.experiments.trees.table2 import VARIANTS, dtr_table2
from shortlist.lab.experiments.trees.table3 import dtr_table3
from shortlist.lab.experiments.trees.table5 import dtr_table5
from shortlist.lab.experiments.trees.table6 import dtr_table6
from shortlist.lab.experiments.trees.table7 import dtr_table7
from shortlist.lab.experiments.trees.table9 import dtr_table9
from shortlist.lab.experiments.trees.tree_speed import tree_speed
from shortlist.lab.experiments.two_stage.bounds_trend import bounds_trend
from shortlist.lab.experiments.two_stage.planted import planted_stage
from shortlist.lab.experiments.two_stage.planted_trained import planted_trained
from shortlist.lab.experiments.two_stage.sampler_trend import bounds_sampler
from shortlist.lab.experiments.two_stage.table1 import bounds_table1
from shortlist.lab.experiments.two_time_scale.cells.places import FULL, MOVIELENS, TENTH, UNIT, name_at
from shortlist.lab.experiments.two_time_scale.drift_sweep import two_time_scale_drift
from shortlist.lab.experiments.two_time_scale.fig2 import two_time_scale_fig2
from shortlist.lab.experiments.two_time_scale.fig3 import two_time_scale_fig3
from shortlist.lab.experiments.two_time_scale.fig4 import two_time_scale_fig4
from shortlist.lab.experiments.two_time_scale.table1 import two_time_scale_table1
from shortlist.lab.experiments.two_time_scale.table3 import two_time_scale_table3
from shortlist.lab.experiments.two_time_scale.theory import two_time_scale_theory
from shortlist.lab.experiments.two_time_scale.threshold_fit import two_time_scale_threshold
from shortlist.lab.result import Result

FIGURES = {
    "bounds-fig1": bounds_fig1,
    "bounds-sampler": bounds_sampler,
    "bounds-trend": bounds_trend,
    "dtr-fig3": dtr_fig3,
    "dtr-fig4": dtr_fig4,
    "dtr-fig5": dtr_fig5,
    "dtr-fig6": dtr_fig6,
    "dtr-fig8": dtr_fig8,
}

EXPERIMENTS: Mapping[str, Callable[..., Result]] = {
    "2ts-drift": two_time_scale_drift,
    **{
        name_at("2ts-fig2", where): partial(two_time_scale_fig2, where=where)
        for where in (MOVIELENS, TENTH, UNIT)
    },
    **{
        name_at("2ts-fig3", where): partial(two_time_scale_fig3, where=where)
        for where in (MOVIELENS, UNIT, FULL)
    },
    **{name_at("2ts-fig4", where): partial(two_time_scale_fig4, where=where) for where in (MOVIELENS, UNIT)},
    **{
        name_at("2ts-table1", where): partial(two_time_scale_table1, where=where)
        for where in (MOVIELENS, UNIT, FULL)
    },
    **{
        name_at("2ts-table3", where): partial(two_time_scale_table3, where=where)
        for where in (MOVIELENS, UNIT)
    },
    **{
        name_at("2ts-threshold", where): partial(two_time_scale_threshold, where=where)
        for where in (MOVIELENS, UNIT)
    },
    "2ts-theory": two_time_scale_theory,
    "auto-table": auto_table,
    "baselines-ml1m": baselines_ml1m,
    "bounds-table1": bounds_table1,
    "bounds-table1-mind": partial(bounds_table1, where="mind"),
    "classic-ml1m": classic_ml1m,
    "components-fig3": components_fig3,
    "components-fig4": components_fig4,
    "components-fig4-eurlex": partial(components_fig4, where="eurlex"),
    "components-prop2": components_prop2,
    "components-fig5": components_fig5,
    "components-fig5-eurlex": partial(components_fig5, where="eurlex"),
    "components-budget": components_budget,
    "components-budget-mind": partial(components_budget, where="mind"),
    "demo-world": demo_world,
    "dtr-table2": dtr_table2,
    "dtr-table2-mind": partial(dtr_table2, where="mind"),
    "dtr-table2-indexes": dtr_table2_indexes,
    "dtr-table2-indexes-mind": partial(dtr_table2_indexes, where="mind"),
    **{f"dtr-table2-{variant}": partial(dtr_table2, variant=variant) for variant in VARIANTS},
    "dtr-table3": dtr_table3,
    "dtr-table5": dtr_table5,
    "dtr-table6": dtr_table6,
    "dtr-table6-mind": partial(dtr_table6, where="mind"),
    "dtr-table7": dtr_table7,
    "dtr-table9": dtr_table9,
    "dtr-time": dtr_time,
    "fsltr-assumptions": fsltr_assumptions,
    "fsltr-assumptions-small": partial(fsltr_assumptions, name="fsltr-assumptions-small", size="small"),
    "fsltr-closed-loop": fsltr_closed_loop,
    "fsltr-closed-loop-small": partial(fsltr_closed_loop, name="fsltr-closed-loop-small", size="small"),
    "fsltr-recipes": fsltr_recipes,
    "fsltr-recipes-small": partial(fsltr_recipes, name="fsltr-recipes-small", size="small"),
    "fsltr-table3": fsltr_table3,
    "fsltr-table3-small": partial(fsltr_table3, name="fsltr-table3-small", size="small"),
    **{name: partial(fsltr_negatives, name=name) for name in NEGATIVES},
    **{
        f"{name}-small": partial(fsltr_negatives, name=f"{name}-small", size="small", table=name)
        for name in NEGATIVES
    },
    "global-time": partial(auto_table, name="global-time", protocol="global-time"),
    "planted-stage": planted_stage,
    "planted-trained": planted_trained,
    "sasrec-time": sasrec_time,
    "sequence-sizes": sequence_sizes,
    "ties": ties,
    "tree-speed-h200": tree_speed,
    **FIGURES,
    **{f"{name}-mind": partial(one, where="mind") for name, one in FIGURES.items()},
}

__all__ = [
    "EXPERIMENTS",
    "FIGURES",
    "auto_table",
    "baselines_ml1m",
    "bounds_fig1",
    "bounds_sampler",
    "bounds_table1",
    "bounds_trend",
    "classic_ml1m",
    "components_budget",
    "components_fig3",
    "components_fig4",
    "components_fig5",
    "components_prop2",
    "demo_world",
    "dtr_fig3",
    "dtr_fig4",
    "dtr_fig5",
    "dtr_fig6",
    "dtr_fig8",
    "dtr_table2",
    "dtr_table2_indexes",
    "dtr_table3",
    "dtr_table5",
    "dtr_table6",
    "dtr_table7",
    "dtr_table9",
    "dtr_time",
    "fsltr_assumptions",
    "fsltr_closed_loop",
    "fsltr_negatives",
    "fsltr_recipes",
    "fsltr_table3",
    "planted_stage",
    "planted_trained",
    "sasrec_time",
    "sequence_sizes",
    "ties",
    "tree_speed",
    "two_time_scale_drift",
    "two_time_scale_fig2",
    "two_time_scale_fig3",
    "two_time_scale_fig4",
    "two_time_scale_table1",
    "two_time_scale_table3",
    "two_time_scale_theory",
    "two_time_scale_threshold",
]
