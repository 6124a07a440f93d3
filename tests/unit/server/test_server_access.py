"""Access to a server: tokens with scopes and tenants, hosts, origins, limits, the audit trail."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.network.sandbur_server import RunningServer, serve
from support.tools import small_disk
from support.waiting import wait_for

from sandbur.state.databases.database import insert
from sandbur.state.store.access_tokens import SCOPES, AccessToken, AuditEntry, AuditTrail, Scope, TokenTable
from sandbur.state.store.store import Store
from sandbur.ui.server.routes.route import ApiRoute
from sandbur.ui.server.routes.table import ROUTES

SECRET = "xylophone"
FACT = "the tenant red likes the colour of a xylophone"
PROTECTED = [route for route in ROUTES if route.scope is not None]
ids = [route.name for route in PROTECTED]


class Served:
    """A server with two tenants; `red` has a session and a fact."""

    def __init__(self, running: RunningServer, store: Store, tokens: dict[str, str]) -> None:
        self.running = running
        self.store = store
        self.tokens = tokens
        self.digest = ""
        self.fact = ""
        self.token_id = ""


def add(store: Store, name: str, tenant: str, scopes: tuple[Scope, ...]) -> tuple[AccessToken, str]:
    return TokenTable(store.database).add(name, tenant, scopes)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served")
    url = f"sqlite:///{home}/sandbur.db"
    store = Store.open(url)
    tokens = {f"{tenant}-{scope}": add(store, f"{tenant}-{scope}", tenant, (scope,))[1]
              for tenant in ("red", "blue") for scope in SCOPES}  # fmt: skip
    tokens |= {tenant: add(store, tenant, tenant, SCOPES)[1] for tenant in ("red", "blue")}
    with serve(home, "--rate-limit", "100000", store=url) as running:
        found = Served(running, store, tokens)
        running.token = tokens["red"]
        running.begin("reds", f"say {SECRET}")
        running.wait_for("reds", "done")
        found.fact = running.ask("POST", "/v1/facts", {"text": FACT}).json["id"]
        found.token_id = TokenTable(store.database).list_all("red")[0].id
        yield found
    store.close()


def fill(served: Served, route: ApiRoute) -> str:
    """Return the path of a route with what belongs to the tenant `red`."""
    values = {
        "session_id": "reds",
        "fact_id": served.fact,
        "token_id": served.token_id,
        "digest": "0" * 64,
        "agent": "default",
    }
    values |= {"model": "another", "response_id": "resp_reds_0"}
    return re.sub(r"{(\w+)}", lambda found: values[found[1]], route.path)


BODIES: dict[str, Any] = {
    "complete_chat": {"model": "default", "messages": [{"role": "user", "content": f"say {SECRET[1:]}"}]},
    "create_response": {"model": "default", "input": "hi", "previous_response_id": "resp_reds_0"},
    "create_session": {"session_id": "reds"},
    "send_message": {"content": "hello"},
    "steer_session": {"text": "hello"},
    "rename_session": {"title": "stolen"},
    "settle_call": {"call": "x", "outcome": "done"},
    "add_fact": {"text": "blue has this fact"},
    "run_thread": {"threadId": "reds", "runId": "r1", "messages": []},
    "answer_a2a": {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "reds"}},
    "add_token": {"name": "new", "scopes": ["read"]},
}


def body_of(route: ApiRoute) -> Any:
    return BODIES.get(route.name, {}) if route.body is not None else None


@pytest.mark.parametrize("route", PROTECTED, ids=ids)
def test_without_a_token_a_route_answers_401_and_nothing_else(served: Served, route: ApiRoute) -> None:
    answer = served.running.ask(route.method, fill(served, route), body_of(route), token="")
    assert answer.status == 401
    assert set(answer.json) == {"error"}


@pytest.mark.parametrize("route", PROTECTED, ids=ids)
def test_a_token_without_the_scope_of_a_route_is_refused(served: Served, route: ApiRoute) -> None:
    for scope in SCOPES:
        if scope != route.scope:
            token = served.tokens[f"red-{scope}"]
            answer = served.running.ask(route.method, fill(served, route), body_of(route), token)
            error = answer.json["error"]
            assert (answer.status, error.get("code", error["type"])) == (403, "forbidden")


@pytest.mark.parametrize("route", PROTECTED, ids=ids)
def test_no_route_shows_or_changes_anything_of_another_tenant(served: Served, route: ApiRoute) -> None:
    before = [row for table in ("heads", "facts", "inbox") for row in dump(served, table)]
    answer = served.running.ask(route.method, fill(served, route), body_of(route), served.tokens["blue"])
    assert SECRET.encode() not in answer.body
    if route.name == "list_audit":
        assert {entry["token"].split(" ")[0] for entry in answer.json["entries"]} <= {"blue"}
    else:
        # An error repeats the id that was asked for.
        assert b"reds" not in answer.body.replace(b"'reds'", b"").replace(b"'resp_reds_0'", b"")
    if route.name == "answer_a2a":
        assert answer.json["error"]["code"] == -32001
    elif "{" in route.path and route.name != "show_card":
        assert answer.status in (400, 404)
    after = [row for table in ("heads", "facts", "inbox") for row in dump(served, table)]
    assert [row for row in before if row not in after] == []


def dump(served: Served, table: str) -> list[Any]:
    tenanted = "session_id = 'reds'" if table != "facts" else "tenant = 'red'"
    columns = "title, last_seq, status" if table == "heads" else "*"
    return served.store.database.query(f"SELECT {columns} FROM {table} WHERE {tenanted}")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    query=st.fixed_dictionaries(
        {},
        optional={
            "text": st.sampled_from([SECRET, "say", "x"]),
            "status": st.sampled_from(["done", "new"]),
            "parent": st.just("reds"),
            "children": st.booleans(),
            "limit": st.integers(1, 200),
        },
    )
)
def test_no_search_finds_a_session_of_another_tenant(served: Served, query: dict[str, Any]) -> None:
    text = "&".join(f"{name}={str(value).lower()}" for name, value in query.items())
    answer = served.running.ask("GET", f"/v1/sessions?{text}", token=served.tokens["blue"])
    assert answer.status == 200
    assert "reds" not in [one["id"] for one in answer.json["sessions"]]


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")


def find_times(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a JSON value that are times by their names."""
    if isinstance(value, dict):
        for name, one in value.items():
            if name == "at" or name.endswith("_at"):
                yield name, one
            yield from find_times(one)
    elif isinstance(value, list):
        for one in value:
            yield from find_times(one)


def test_every_time_in_an_answer_has_one_form(served: Served) -> None:
    seen: set[str] = set()
    read = [route for route in PROTECTED if route.method == "GET" and not route.protocol]
    for route in read:
        if route.name in ("stream_events", "show_metrics", "download_file"):
            continue
        for name, time in find_times(served.running.ask("GET", fill(served, route)).json):
            seen.add(f"{route.name}.{name}")
            assert time == "" or _TIME.fullmatch(time), (route.name, name, time)
    wanted = {"list_sessions.created_at", "show_session.created_at", "find_facts.created_at"}
    assert wanted | {"list_tokens.created_at", "list_audit.at", "show_fact.created_at"} <= seen


def test_the_owner_of_a_session_sees_it(served: Served) -> None:
    for path in ("/v1/sessions", "/v1/sessions/reds", "/v1/sessions/reds/messages", "/v1/facts?text=colour"):
        assert SECRET.encode() in served.running.ask("GET", path, token=served.tokens["red"]).body


def test_a_stored_token_is_a_hash(served: Served) -> None:
    rows = served.store.database.query("SELECT * FROM tokens")
    assert not any(text in str(row) for row in rows for text in served.tokens.values())


def test_a_revoked_token_is_refused_at_once_by_the_server_that_revoked_it(served: Served) -> None:
    made = served.running.ask("POST", "/v1/tokens", {"name": "short", "scopes": ["read"]}).json
    assert served.running.ask("GET", "/v1/sessions", token=made["token"]).status == 200
    assert served.running.ask("DELETE", f"/v1/tokens/{made['id']}").status == 200
    assert served.running.ask("GET", "/v1/sessions", token=made["token"]).status == 401


def test_a_token_makes_none_that_allows_more(served: Served) -> None:
    wanted = {"name": "more", "scopes": ["run"]}
    answer = served.running.ask("POST", "/v1/tokens", wanted, served.tokens["red-admin"])
    assert answer.status == 403


def test_changes_and_refusals_are_in_the_audit_trail_of_the_tenant(served: Served) -> None:
    served.running.ask("PATCH", "/v1/sessions/reds", {"title": "audited"})
    served.running.ask("DELETE", "/v1/sessions/reds", token=served.tokens["red-read"])
    entries = served.running.ask("GET", "/v1/audit").json["entries"]
    lines = [(entry["request"], entry["status"], entry["token"].split(" ")[0]) for entry in entries]
    assert ("PATCH /v1/sessions/reds", 200, "red") in lines
    assert ("DELETE /v1/sessions/reds", 403, "red-read") in lines
    others = served.running.ask("GET", "/v1/audit", token=served.tokens["blue"]).json["entries"]
    assert "audited" not in str(others)
    assert "PATCH /v1/sessions/reds" not in [one["request"] for one in others if one["status"] == 200]


def test_requests_with_wrong_tokens_are_in_the_audit_trail_of_no_tenant(tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        assert running.ask("GET", "/v1/sessions/guessed", token="wrong").status == 401
        own = running.ask("GET", "/v1/audit").json["entries"]
        assert "guessed" not in str(own)
        store = Store.open(f"sqlite:///{running.environment['SANDBUR_HOME']}/sandbur.db")
        (entry,) = AuditTrail(store.database).list_newest(None, 10)
        store.close()
        assert (entry.request, entry.status) == ("GET /v1/sessions/guessed", 401)
        listed = running.run("list-audit")
        assert "401  GET /v1/sessions/guessed  no valid token" in listed


def test_the_pages_of_the_audit_trail_have_every_entry_once(served: Served) -> None:
    for number in range(7):
        served.running.ask("PATCH", "/v1/sessions/reds", {"title": f"page {number}"})
    whole = served.running.ask("GET", "/v1/audit?limit=1000").json["entries"]
    found: list[Any] = []
    before = ""
    while before is not None:
        page = served.running.ask("GET", f"/v1/audit?limit=2&before={before}").json
        found += page["entries"]
        before = page["next"]
    assert found == whole


def test_a_place_of_the_audit_trail_needs_no_encoding(served: Served) -> None:
    for number in range(2):
        served.running.ask("PATCH", "/v1/sessions/reds", {"title": f"place {number}"})
    first = served.running.ask("GET", "/v1/audit?limit=1").json
    at, _, entry_id = first["next"].partition("_")
    # The same moment, and an id after all others: the entry itself is the first that is older.
    later = f"{at}_{'g' * len(entry_id)}"
    assert served.running.ask("GET", f"/v1/audit?limit=1&before={later}").json["entries"] == first["entries"]


def test_entries_of_the_same_millisecond_are_on_different_pages(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db")
    rows = [
        AuditEntry(f"{number:032x}", "red", "2026-01-01T00:00:00.000+00:00", "t", f"GET /{number}", "", 403)
        for number in range(5)
    ]
    store.database.commit([insert("audit", row._asdict()) for row in rows])
    trail = AuditTrail(store.database)
    first = trail.list_newest("red", 2)
    place = first[-1].place
    assert quote(place, safe="") == place.replace(":", "%3A")
    earlier = place.replace("Z", " 00:00")
    for rest in (trail.list_newest("red", 10, place), trail.list_newest("red", 10, earlier)):
        assert [*first, *rest] == rows[::-1]
    store.close()


def test_the_numbers_of_all_tenants_are_for_the_tenant_of_the_server(served: Served) -> None:
    assert served.running.ask("GET", "/metrics").status == 403
    token = add(served.store, "operator", "", ("admin",))[1]
    assert served.running.ask("GET", "/metrics", token=token).status == 200


def test_a_valid_token_passes_however_many_wrong_ones_came_from_its_address(tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        statuses = [running.ask("GET", "/v1/agents", token=f"wrong{number}").status for number in range(40)]
        assert statuses[0] == 401
        assert statuses[-1] == 429
        assert running.ask("GET", "/v1/agents").status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example"])
def test_a_request_to_another_host_name_is_refused(served: Served, host: str) -> None:
    assert served.running.ask("GET", "/v1/sessions", headers={"host": host}).status == 421


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
)
def test_the_page_of_another_site_changes_nothing(served: Served, headers: dict[str, str]) -> None:
    answer = served.running.ask("PATCH", "/v1/sessions/reds", {"title": "x"}, headers=headers)
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers


def test_a_body_that_is_too_large_or_no_json_is_refused(served: Served) -> None:
    ask = served.running.ask
    assert ask("PATCH", "/v1/sessions/reds", raw=b'"' + b"x" * 3_000_000 + b'"').status == 413
    assert ask("PATCH", "/v1/sessions/reds", raw=b"[" + b"[]," * 500_000 + b"1]").status == 413
    assert ask("PATCH", "/v1/sessions/reds", raw=b"{").status == 400
    assert ask("PATCH", "/v1/sessions/reds", raw=b"[" * 100_000).status == 400
    assert ask("PATCH", "/v1/sessions/reds", raw=b"a=b", headers={"content-type": "text/plain"}).status == 415


async def test_an_audit_trail_that_cannot_be_written_is_a_notice_and_no_failed_request(
    tmp_path: Path,
) -> None:
    notices: list[str] = []
    store = Store.open(f"sqlite:///{tmp_path}/sandbur.db", "", notices.append)
    store.database.commit([("DROP TABLE audit", ())])
    await AuditTrail(store.database).add("", "ci", "POST /v1/sessions", "", 503)
    store.close()
    assert [one for one in notices if "POST /v1/sessions is not in the audit trail" in one]


def test_too_many_requests_of_a_token_have_to_wait(tmp_path: Path) -> None:
    with serve(tmp_path, "--rate-limit", "5") as running:
        answers = [running.ask("GET", "/v1/agents") for _ in range(7)]
        assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
        assert int(answers[-1].headers["retry-after"]) > 0


def test_a_server_that_others_can_reach_needs_a_token_first(tmp_path: Path) -> None:
    with pytest.raises(AssertionError), serve(tmp_path, "--host", "0.0.0.0"):
        pass
    assert "needs a token first" in (tmp_path / "server.err").read_text()


def test_the_store_has_no_token_of_a_server_that_printed_one(tmp_path: Path) -> None:
    with serve(tmp_path) as running:
        assert running.ask("GET", "/v1/agents").status == 200
    with sqlite3.connect(tmp_path / "sandbur" / "sandbur.db") as connection:
        assert connection.execute("SELECT COUNT(*) FROM tokens").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (("-m", "nope/xx"), 2, "There is no provider 'nope'"),
        (("-m", "openai/gpt-5"), 41, "No key for openai"),
        (("--allow-host", "http://x"), 2, "--allow-host 'http://x' is not a host name"),
    ],
)
def test_a_server_with_a_wrong_flag_does_not_start(
    tmp_path: Path, flags: tuple[str, ...], code: int, sentence: str
) -> None:
    command = [sys.executable, "-m", "sandbur.ui.cli.main", "serve", "--port", "0", *flags]
    clean = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_BASE_URL"))}
    environment = {**clean, "HOME": str(tmp_path), "SANDBUR_HOME": str(tmp_path / "data")}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert sentence in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@small_disk.needs_root
def test_a_server_whose_disk_is_full_is_not_ready_but_healthy(tmp_path: Path) -> None:
    with small_disk.mount_small_disk(tmp_path / "served", "8M") as home, serve(home) as running:
        ask = running.ask
        assert ask("GET", "/readyz", token="").status == 200
        filler = small_disk.fill(home, 0)
        wait_for(lambda: ask("GET", "/readyz", token="").status == 503)
        error = ask("GET", "/readyz", token="").json["error"]
        assert (error["type"], "full" in error["message"] or "space" in error["message"]) == ("store", True)
        assert str(home) not in error["message"]
        assert ask("GET", "/healthz", token="").status == 200
        filler.unlink()
        wait_for(lambda: ask("GET", "/readyz", token="").status == 200)
