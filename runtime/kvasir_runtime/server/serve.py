"""`kvasir-runtime serve`: reads the command line, sets up logging and runs the server."""

from __future__ import annotations

import logging
import platform
from collections.abc import Sequence
from importlib.metadata import version

import uvloop

from kvasir_runtime.config import EngineConfig, ServerConfig, parse_args
from kvasir_runtime.errors import KvasirError
from kvasir_runtime.server.logs import configure_logging
from kvasir_runtime.server.state import ServerState
from kvasir_runtime.server.supervisor import Supervisor, leave
from kvasir_runtime.server.termination import write_termination

logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until told to stop. Return 1 for settings that can't work; else the process ends."""
    configure_logging("info", "text")
    try:
        engine_config, server_config = parse_args(None if argv is None else list(argv))
        configure_logging(server_config.log_level, server_config.log_format)
        log_settings(engine_config, server_config)
        uvloop.run(_serve(engine_config, server_config))
    except KvasirError as error:
        logger.error("%s: %s", error.reason, error)  # noqa: TRY400 - the sentence is all
        write_termination(error)
        return 1
    return 0


def log_settings(engine_config: EngineConfig, server_config: ServerConfig) -> None:
    """Log what runs and how; keys are never shown."""
    logger.info("Kvasir %s on Python %s", version("kvasir"), platform.python_version())
    logger.info("%s", engine_config)
    shown = {
        name: "***" if name == "api_key" and value else value
        for name, value in (
            (name, getattr(server_config, name)) for name in ServerConfig.__dataclass_fields__
        )
    }
    logger.info("Server: %s", ", ".join(f"{name}={value!r}" for name, value in shown.items()))


async def _serve(engine_config: EngineConfig, server_config: ServerConfig) -> None:
    status = await Supervisor(ServerState(engine_config, server_config)).run()
    leave(status)
