"""`kvasir-runtime bench`: throughput of the engine, latency of any OpenAI server.

Nothing here imports the server or a web framework: the in-process modes run where torch alone is
installed.
"""
