"""One InferenceService as the operator handles it: parsed once from the API server's JSON.

In: the raw object. Out: a frozen value with a typed spec; the status stays a plain dict.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kvasir_operator.errors import InvalidSpec
from kvasir_operator.model.spec import Spec

Raw = Mapping[str, Any]

NOT_IN_TEMPLATE = {"replicas", "paused"}
"""The spec fields that a pod template does not depend on."""

REVISION_LENGTH = 10


@dataclass(frozen=True, slots=True)
class Ref:
    """Which object, and which of its generations."""

    namespace: str
    name: str
    uid: str
    generation: int

    @classmethod
    def of(cls, raw: Raw) -> Ref:
        """The reference to a raw InferenceService."""
        meta = raw["metadata"]
        return cls(meta["namespace"], meta["name"], meta["uid"], meta.get("generation", 0))


@dataclass(frozen=True, slots=True)
class InferenceService:
    """A service the user wants."""

    ref: Ref
    spec: Spec

    @classmethod
    def parse(cls, raw: Raw) -> InferenceService:
        """Read a raw object.

        Raises:
            InvalidSpec: when this version cannot read the spec, naming the first wrong field.
        """
        try:
            spec = Spec.model_validate(raw.get("spec") or {})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(("spec", *(str(part) for part in first["loc"])))
            raise InvalidSpec(f"{field}: {first['msg']}") from error
        return cls(Ref.of(raw), spec)

    @property
    def revision(self) -> str:
        """Hash of the fields a pod template depends on, those at their default left out.

        A field that a later version adds with a default changes no hash, so no pod.
        """
        fields = self.spec.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=NOT_IN_TEMPLATE
        )
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:REVISION_LENGTH]
