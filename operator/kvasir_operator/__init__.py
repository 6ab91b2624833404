"""Kvasir's control plane: an InferenceService in; Deployments, Services and a true status out."""
