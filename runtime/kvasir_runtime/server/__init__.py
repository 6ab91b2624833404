"""The HTTP door: OpenAI's API, probes and metrics, in front of one engine."""
