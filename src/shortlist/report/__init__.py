"""HTML pages of results, each a self-contained file."""

from shortlist.report.compare import compare_drawing, compare_page
from shortlist.report.data import data_page
from shortlist.report.diagnosis.page import diagnosis_page
from shortlist.report.page import Html, Section, code, facts, figure, page, table
from shortlist.report.run import run_page
from shortlist.report.tree.page import tree_section

__all__ = [
    "Html",
    "Section",
    "code",
    "compare_drawing",
    "compare_page",
    "data_page",
    "diagnosis_page",
    "facts",
    "figure",
    "page",
    "run_page",
    "table",
    "tree_section",
]
