"""What ``analyze --json`` prints: an analysis as a document, and the schema that it keeps to."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from flatboot.bootlog.bootlog import Analysis
from flatboot.bootlog.bootlog_advice import Advice
from flatboot.record.callbacks import CallbackCost

#: Grows when a field changes its meaning or goes; new fields do not count.
VERSION = 1
#: The schema, as it is shipped.
SCHEMA = Path(__file__).with_name("analyze.schema.json")
#: What an analysis has and a document has not: it is the log itself.
_LEFT_OUT = ("messages",)
_ADDED: dict[str, Any] = {
    "version": int,
    "advice": list[Advice],
    "callbacks": list[CallbackCost],
}


def document(
    analysis: Analysis, advice: Sequence[Advice], costs: Sequence[CallbackCost]
) -> dict[str, Any]:
    """Return the document of an *analysis*, of which all times are ns."""
    fields = {
        field.name: getattr(analysis, field.name)
        for field in dataclasses.fields(analysis)
        if field.name not in _LEFT_OUT
    }
    return {"version": VERSION, **fields, "advice": advice, "callbacks": costs}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a document, as the classes say."""
    whole = TypeAdapter(Analysis).json_schema(mode="serialization")
    for name in _LEFT_OUT:
        del whole["properties"][name]
    for name, kind in _ADDED.items():
        added = TypeAdapter(kind).json_schema(mode="serialization")
        whole["$defs"].update(added.pop("$defs", {}))
        whole["properties"][name] = added
    whole["required"] = sorted(whole["properties"])
    whole["title"] = f"What flatboot analyze --json prints, version {VERSION}"
    text = json.dumps(whole["properties"])
    whole["$defs"] = {
        name: found for name, found in sorted(whole["$defs"].items()) if f"$defs/{name}" in text
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_bare(whole)}


def _bare(part: Any) -> Any:
    """Return *part* without descriptions, which are those of the classes and no promise."""
    if isinstance(part, dict):
        return {
            key: _bare(value)
            for key, value in part.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_bare(item) for item in part] if isinstance(part, list) else part
