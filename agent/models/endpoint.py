"""Which model is called where, with whose key."""

from dataclasses import dataclass, field

from agent.models.profiles import Profile
from state.messages import Wire


@dataclass(frozen=True, slots=True)
class Endpoint:
    profile: Profile
    model: str
    base_url: str
    api_key: str = field(repr=False)
    key_env: str
    """Where the key came from or should come from; empty if none is needed."""
    sends_ambient_headers: bool
    """True if the headers that the SDK reads from its environment may go to this host."""

    @property
    def provider(self) -> str:
        return self.profile.name

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    def said(self, wire: Wire | None) -> bool:
        """Tell whether this very model wrote it."""
        return wire is not None and (wire.provider, wire.model) == (self.provider, self.model)
