"""`spec.model`: where the weights come from and under which name they are served."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from kvasir_operator.model.base import Fields, ObjectName, Quantity, rules

HF_RULE = "^hf://([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$"
PVC_RULE = "^pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/[^/]+)*/?$"

URI_RULES = rules(
    (
        "!self.startsWith('s3://')",
        "s3:// is not supported by this version: copy the model to a PersistentVolumeClaim "
        "and use pvc://CLAIM/PATH",
    ),
    (
        "self.matches('^(hf|pvc|file|s3)://')",
        "must start with hf:// (hf://ORG/NAME), pvc:// (pvc://CLAIM/PATH) "
        "or file:// (file:///PATH on the node)",
    ),
    (
        f"!self.startsWith('hf://') || self.matches('{HF_RULE}')",
        "after hf:// comes ORG/NAME as on the Hugging Face hub, e.g. "
        "hf://Qwen/Qwen2.5-7B-Instruct; a revision goes to model.revision",
    ),
    (
        f"!self.startsWith('pvc://') || self.matches('{PVC_RULE}')",
        "after pvc:// comes CLAIM/PATH: the name of a PersistentVolumeClaim in this namespace "
        "and the model's folder in it",
    ),
    (
        "!self.startsWith('file://') || self.startsWith('file:///')",
        "after file:// comes an absolute path on the node: file:///srv/models/NAME",
    ),
    (
        "!self.matches('(^|/)[.][.]?(/|$)')",
        "the path must not contain . or .. as a segment",
    ),
)

MODEL_RULES = rules(
    (
        "!has(self.revision) || self.uri.startsWith('hf://')",
        "model.revision goes with hf:// only: other sources have no revisions",
    ),
    (
        "!has(self.tokenSecretRef) || self.uri.startsWith('hf://')",
        "model.tokenSecretRef goes with hf:// only",
    ),
    (
        "!has(self.cache) || self.uri.startsWith('hf://')",
        "model.cache goes with hf:// only: pvc:// and file:// are read in place",
    ),
)


class KeyRef(Fields):
    """One entry of a Secret or ConfigMap in the same namespace."""

    name: ObjectName
    """The object's name."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """The entry's key."""


class CacheSpec(Fields):
    """Where downloaded weights are kept."""

    type: Literal["EmptyDir"] = "EmptyDir"
    """EmptyDir: node storage that lives as long as the pod."""
    size: Quantity | None = None
    """Most it may take, e.g. 40Gi; a pod that writes more is evicted. No limit when omitted."""


class ModelSpec(Fields):
    """The model to serve."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": MODEL_RULES})

    uri: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            json_schema_extra={"x-kubernetes-validations": URI_RULES},
        ),
    ]
    """Where the weights are: hf://ORG/NAME (downloaded from the Hugging Face hub),
    pvc://CLAIM/PATH (a folder on a PersistentVolumeClaim of this namespace, mounted read-only) or
    file:///PATH (a folder on the node; needs a namespace that allows hostPath volumes).
    The folder is a normal Hugging Face one: config.json, tokenizer.json, *.safetensors."""
    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit on the hub (hf:// only). Pin a commit so that pods started later serve
    the same weights."""
    served_name: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._:/@]*$")
        ]
        | None
    ) = None
    """The name clients put into a request's "model". metadata.name when omitted."""
    token_secret_ref: KeyRef | None = None
    """Secret entry with the hub's token, for gated or private models (hf:// only)."""
    cache: CacheSpec | None = None
    """Where downloaded weights are kept (hf:// only)."""
