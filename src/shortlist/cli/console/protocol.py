"""The option --protocol of verbs that split a data set."""

from typing import Annotated

import typer

from shortlist.data.split import PROTOCOLS

Protocol = Annotated[
    str | None, typer.Option(help=f"Split protocol: {', '.join(PROTOCOLS)}. Default: that of the data set.")
]
