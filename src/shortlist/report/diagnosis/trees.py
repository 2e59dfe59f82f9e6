"""The trees of a pipeline on the page of its diagnosis."""

from collections.abc import Mapping
from typing import Any

from shortlist.report.page import Section
from shortlist.report.tree.page import tree_sections


def trees(told: Mapping[str, Any]) -> list[Section]:
    """All sections of all trees."""
    return [section for name, tree in told.get("trees", {}).items() for section in _tree(name, tree)]


def _tree(name: str, tree: Mapping[str, Any]) -> list[Section]:
    return [
        Section(f"The tree {name!r}: {section.title[0].lower()}{section.title[1:]}", section.parts)
        for section in tree_sections(tree)
    ]
