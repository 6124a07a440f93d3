"""Sessions that wait for a worker, and the claims of workers."""

from collections.abc import Iterable

from sandbur.state.process.identity import make_runner_name
from sandbur.state.session import SessionSettings
from sandbur.state.store.sessions.claims import WorkerClaims, WorkerProfile, ask_for_run
from sandbur.state.store.sessions.lanes import make_lane
from sandbur.state.store.store import Store

AGENT = "shop.bot:agent"


def add_waiting(
    store: Store, session_id: str, tenant: str = "", asked: int = 1, **settings: object
) -> SessionSettings:
    """Create a session of an agent that a message asks to run."""
    made = SessionSettings.model_validate({"model": "m", "cwd": "/", "agent": AGENT, **settings})
    Store(store.database, store.url, tenant).index.create(session_id, made)
    asking = ask_for_run(session_id, asked, make_lane(tenant, made), store.database.now())
    store.database.commit([asking])
    return made


def make_claims(
    store: Store, labels: Iterable[str] = (), agents: Iterable[str] = (AGENT,), host: str = ""
) -> WorkerClaims:
    """Return the claims of a new worker, on this host or on another one."""
    name = make_runner_name()
    name = f"{host}:{name.partition(':')[2]}" if host else name
    claims = WorkerClaims(store.database, WorkerProfile(name, host, frozenset(agents), frozenset(labels), 4))
    claims.register()
    return claims


def set_head(store: Store, session_id: str, **columns: object) -> None:
    for column, value in columns.items():
        sql = f"UPDATE heads SET {column} = ? WHERE session_id = ?"
        store.database.commit([(sql, (value, session_id))])
