"""How this operator runs: parsed once from the command line, frozen, passed down."""

from __future__ import annotations

from dataclasses import dataclass

from kvasir_operator.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was started with."""

    default_image: str
    """Engine image of services that name none; may be empty, then they have to."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that are watched; empty: all."""
    health_port: int = 8080
    log_format: str = "text"
    log_level: str = "info"
    workers: int = 8
    """Most services reconciled at the same time."""
    resync_s: float = 60.0
    """Seconds between two looks at everything, changed or not."""
    status_interval_s: float = 1.0
    """Least seconds between two status writes of a service that say nothing urgent."""

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            SettingsError: with a sentence that names the flag.
        """
        if not 0 <= self.health_port <= 65535:
            raise SettingsError(f"--health-port {self.health_port} is not a port (0 to 65535)")
        if self.workers < 1:
            raise SettingsError(f"--workers {self.workers}: at least 1 is needed")
