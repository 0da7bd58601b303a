"""What a `figures` fence asks for, once it is read."""

from collections.abc import Mapping
from dataclasses import dataclass

from openbook.data.model import Column, Record, Topic


@dataclass(frozen=True)
class Request:
    """What a fence asks for. `columns` holds data columns and names of attributes, in order."""

    topic: Topic
    columns: tuple[Column | str, ...]
    records: tuple[Record, ...]
    units: Mapping[str, str]
    caption: str
    head: str
