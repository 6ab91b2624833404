"""Models: what a checkpoint is, the module that runs it, and its weights."""
