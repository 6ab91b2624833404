"""The base of every typed part of the CRD: camelCase outside, snake_case inside, nothing unknown.

Attribute docstrings become the descriptions that `kubectl explain` shows.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"

Quantity = Annotated[
    str,
    BeforeValidator(str),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A Kubernetes quantity such as 2, 500m or 8Gi."""

ObjectName = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
]
"""The name of an object in the same namespace."""

ShortText = Annotated[str, Field(max_length=256)]


class Fields(BaseModel):
    """A group of CRD fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )


def rules(*pairs: tuple[str, str]) -> list[JsonValue]:
    """CEL rules as the CRD wants them, from (rule, message) pairs."""
    return [{"rule": rule, "message": message} for rule, message in pairs]
