"""What is wrong around a run is said in one sentence, with what to do about it, and is no bug of ours."""

import datetime
import ipaddress
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from support.commands.command import Command, Ended
from support.models.server import ModelServer, fail

FREE = "http://127.0.0.1:9/v1"
"""Nothing listens at the discard port."""
NO_THREADS = ("sh", "-c", f'ulimit -s {200 << 30} && exec "$0" "$@"')
"""A thread's stack is as large as this limit by default, so that there is no room for a single one."""


def asked(command: Command, url: str, model: str = "openai/gpt-test", **env: str) -> Ended:
    words = ("-p", "hi", "-m", model, "--output-format", "json")
    ended = command.run(*words, OPENAI_API_KEY="sk-test", OPENAI_BASE_URL=url, **env)
    assert "bug" not in ended.err
    assert "internal error" not in ended.err
    assert "crash.log" not in ended.err
    return ended


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e400", "1e9", "-5", "0", "words", "20s"])
def test_a_lease_that_is_no_time_is_a_bad_setting(command: Command, value: str) -> None:
    ended = asked(command, FREE, "demo", SANDBUR_LEASE_S=value)
    assert (ended.code, ended.result["error"]["code"]) == (52, "config")
    assert "SANDBUR_LEASE_S should be a number of seconds" in ended.err


@pytest.mark.parametrize("content", [None, "no certificate", "folder"])
def test_a_certificate_file_that_cannot_be_used_is_a_bad_setting(
    command: Command, content: str | None
) -> None:
    path = command.folder / "ca.pem"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    ended = asked(command, "https://127.0.0.1:9/v1", SSL_CERT_FILE=str(path))
    assert (ended.code, ended.result["error"]["code"]) == (52, "config")
    assert f"SSL_CERT_FILE={path}" in ended.err
    assert "Resume with: sandbur -r" in ended.err


@pytest.mark.parametrize("proxy", ["foo://user:secret@127.0.0.1:9", "socks9://127.0.0.1:9"])
def test_a_proxy_that_is_none_is_a_bad_setting(command: Command, proxy: str) -> None:
    ended = asked(command, "http://model.example/v1", HTTP_PROXY=proxy)
    assert (ended.code, ended.result["error"]["code"]) == (52, "config")
    assert "HTTP_PROXY" in ended.err
    assert "secret" not in ended.err + ended.out


def certificate(folder: Path) -> Path:
    """Make a certificate for 127.0.0.1 that nobody else has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    form = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "own.pem"
    path.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return path


@contextmanager
def encrypted(path: Path) -> Iterator[tuple[str, list[object]]]:
    """Serve TLS with this certificate; yield the address, and what tried to connect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    tries: list[object] = []

    def serve() -> None:
        while True:
            try:
                connection, peer = listener.accept()
            except OSError:
                return
            tries.append(peer)
            with connection:
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/v1", tries
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_certificate_that_does_not_verify_is_said_at_once(command: Command) -> None:
    with encrypted(certificate(command.folder)) as (url, tries):
        ended = asked(command, url)
    assert (ended.code, ended.result["status"]) == (1, "error")
    assert "certificate" in ended.result["error"]["message"]
    assert "self-signed" in ended.result["error"]["message"].replace("self signed", "self-signed")
    assert "SSL_CERT_FILE" in ended.err
    assert len(tries) == 1


def test_a_name_that_does_not_resolve_is_said_at_once(command: Command) -> None:
    ended = asked(command, "http://no-such-host.invalid/v1")
    assert (ended.code, ended.result["status"]) == (1, "error")
    assert "no-such-host.invalid" in ended.result["error"]["message"]
    assert "Check the base URL" in ended.err
    assert "of 5" not in ended.err


def test_an_ollama_that_is_not_running_says_how_to_start_it(command: Command) -> None:
    ended = asked(command, FREE, "ollama/qwen3:8b", OLLAMA_HOST="127.0.0.1:9")
    assert (ended.code, ended.result["status"]) == (1, "error")
    assert "ollama serve" in ended.err
    assert "of 5" not in ended.err


def test_a_stand_in_answers_for_a_model_that_cannot_be_reached(command: Command) -> None:
    ended = command.run(
        "-p", "hi", "-m", "ollama/qwen3:8b", "--fallback-model", "demo", OLLAMA_HOST="127.0.0.1:9"
    )
    assert ended.code == 0, ended.err
    assert "Starting over with demo" in ended.err


@pytest.mark.parametrize(
    ("seconds", "said"), [("100000000", "it asks to wait until 20"), ("9" * 400, "until 9999-12-")]
)
def test_a_wait_of_years_is_said_as_a_date(command: Command, seconds: str, said: str) -> None:
    with ModelServer([fail(429, retry_after=seconds)]) as server:
        ended = asked(command, server.base_url)
    assert (ended.code, ended.result["status"]) == (75, "rate_limited")
    assert said in ended.result["error"]["message"]
    assert "minutes" not in ended.err


def test_a_system_that_starts_no_thread_is_told_and_the_session_goes_on_later(command: Command) -> None:
    # The certificates are read in a thread.
    address = FREE.replace("http:", "https:")
    env = {**command.env, "OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": address}
    line = [*NO_THREADS, *command.line("-p", "hi", "-m", "openai/gpt-test")]
    done = subprocess.run(
        line, cwd=command.folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("ulimit -u") == 1
    assert "bug" not in done.stderr
    assert "internal error" not in done.stderr
    assert "Resume with: sandbur -r" in done.stderr


def test_a_run_that_ends_without_threads_keeps_its_exit_code(command: Command) -> None:
    line = [*NO_THREADS, *command.line("-p", "run ls", "-y", "-m", "demo")]
    done = subprocess.run(
        line, cwd=command.folder, env=command.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, "internal error" in done.stderr) == (0, False), done.stderr


def test_a_hello_loads_no_wing_that_it_does_not_need(command: Command) -> None:
    program = (
        "import sys; from sandbur.ui.cli.main import main; main(['-p', 'hello', '-m', 'demo', '-q']);"
        "ours = {n: m for n, m in sys.modules.items() if n.startswith('sandbur.')};"
        "print(*ours, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=command.env, cwd=command.folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    unneeded = (
        "telemetry.telemetry",
        "tracking.backend",
        "models.openai",
        "models.anthropic",
        "history.replay.replay",
        "history.reports",
        "shell.process",
        "agent.policy",
        "turn.tool_runner",
        "turn.recovery",
        "agent.pricing",
    )
    assert not [name for name in unneeded if name in done.stderr]
