"""The engine: sequences, their blocks, a scheduler, a runner, and the loop that joins them."""
