"""Metadata of a child: labels, the owner, and the mark that says what was applied."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kvasir_operator import names
from kvasir_operator.model.service import Ref


def metadata(ref: Ref, name: str, extra_labels: dict[str, str] | None = None) -> dict[str, Any]:
    """Metadata of the child `name`. The owner reference lets the garbage collector delete it."""
    return {
        "name": name,
        "namespace": ref.namespace,
        "labels": {**names.labels(ref.name), **(extra_labels or {})},
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": ref.name,
                "uid": ref.uid,
                "controller": True,
            }
        ],
    }


def marked(obj: dict[str, Any]) -> dict[str, Any]:
    """`obj` with an annotation that holds the hash of what is applied.

    It shows, also after a restart, that a field was taken out of what we want: the live object
    then carries another hash, though it still contains everything that is wanted.
    """
    canonical = json.dumps(obj, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:16]
    meta = {**obj["metadata"], "annotations": {names.ANNOTATION_APPLIED: digest}}
    return {**obj, "metadata": meta}
