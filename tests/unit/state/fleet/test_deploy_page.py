"""The files of `docs/deploy/` are accepted by the programs that read them, and name what the product has."""

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.network.sandbur_server import serve
from support.places import ROOT
from support.required import require, require_module
from support.stores.ray_head import find_free_port

from sandbur.ui.cli.arguments import parse

FOLDER = ROOT / "docs" / "deploy"
PAGE = (ROOT / "docs" / "deploy.md").read_text("utf-8")
VERSIONS = ("1.30", "1.34")
"""Of Kubernetes: an older one, and a newer one."""


def load_all(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def find_containers() -> list[dict[str, Any]]:
    deployments = [one for one in load_all("kubernetes.yaml") if one["kind"] == "Deployment"]
    return [one for found in deployments for one in found["spec"]["template"]["spec"]["containers"]]


def test_the_page_links_to_every_file() -> None:
    linked = set(re.findall(r"\]\(deploy/([^)]+)\)", PAGE)) - {""}
    assert linked == {path.name for path in FOLDER.iterdir()}


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_accepts_every_manifest(version: str) -> None:
    require_module("kubernetes_validate")
    import kubernetes_validate

    for manifest in load_all("kubernetes.yaml"):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_every_selector_of_the_manifests_finds_its_pods_and_every_name_its_object() -> None:
    manifests = load_all("kubernetes.yaml")
    deployments = {
        one["metadata"]["name"]: one["spec"]["template"] for one in manifests if one["kind"] == "Deployment"
    }
    secrets = {one["metadata"]["name"] for one in manifests if one["kind"] == "Secret"}
    labels = [template["metadata"]["labels"] for template in deployments.values()]
    for one in manifests:
        selector = one["spec"].get("selector", {}) if "spec" in one else {}
        if wanted := selector.get("matchLabels", selector):
            assert sum(wanted.items() <= found.items() for found in labels) == 1, one["metadata"]["name"]
    for template in deployments.values():
        assert template["spec"]["terminationGracePeriodSeconds"] >= 60
        volumes = {one["name"]: one for one in template["spec"]["volumes"]}
        assert volumes["key"]["secret"]["secretName"] in secrets
        for container in (*template["spec"]["containers"], *template["spec"]["initContainers"]):
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys()
            assert {one["secretRef"]["name"] for one in container.get("envFrom", ())} <= secrets
    (scaled,) = load_all("keda.yaml")
    assert scaled["spec"]["scaleTargetRef"]["name"] in deployments


def test_the_scaled_object_has_the_form_and_the_numbers_of_the_product() -> None:
    (scaled,) = load_all("keda.yaml")
    spec = scaled["spec"]
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert spec.keys() <= {
        "scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod",
        "advanced", "triggers",
    }  # fmt: skip
    (trigger,) = spec["triggers"]
    assert trigger["type"] == "prometheus"
    assert {"serverAddress", "query", "threshold"} <= trigger["metadata"].keys()
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    worker = next(one for one in find_containers() if one["name"] == "worker")
    command = parse(worker["args"])
    assert trigger["metadata"]["threshold"] == str(getattr(command, "concurrency"))  # noqa: B009
    source = (ROOT / "ui/server/service.py").read_text("utf-8")
    for metric in re.findall(r"sandbur_\w+", trigger["metadata"]["query"]):
        assert f'"{metric}"' in source


def test_every_command_line_of_the_files_can_be_read() -> None:
    lines = [one["args"] for one in find_containers()]
    container = (FOLDER / "Containerfile").read_text("utf-8")
    lines += [yaml.safe_load(text) for text in re.findall(r"^CMD (.*)$", container, re.M)]
    for unit in FOLDER.glob("*.service"):
        (line,) = re.findall(r"^ExecStart=\S+/sandbur (.*)$", unit.read_text("utf-8"), re.M)
        lines.append(shlex.split(line))
    assert len(lines) == 5
    for words in lines:
        parse(words)


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    require("systemd-analyze")
    for unit in FOLDER.glob("*.service"):
        text = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", unit.read_text("utf-8"), flags=re.M)
        (tmp_path / unit.name).write_text(text)
    for unit in tmp_path.glob("*.service"):
        checked = subprocess.run(
            ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")


def test_the_container_file_names_paths_and_extras_that_exist() -> None:
    text = (FOLDER / "Containerfile").read_text("utf-8")
    known = (ROOT / "pyproject.toml").read_text("utf-8")
    (extras,) = re.findall(r"'\.\[(.*?)\]'", text)
    assert all(re.search(rf"^{extra} = \[", known, re.M) for extra in extras.split(","))
    words = {line.split()[0] for line in text.replace("\\\n", " ").splitlines() if line and line[0] != "#"}
    assert words <= {
        "FROM", "WORKDIR", "COPY", "RUN", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"
    }  # fmt: skip


@contextmanager
def run_nginx(folder: Path, upstream: int, port: int) -> Iterator[None]:
    """Run nginx with the file of the page, on another port and without TLS."""
    text = (FOLDER / "nginx.conf").read_text("utf-8").replace("127.0.0.1:7252", f"127.0.0.1:{upstream}")
    text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    text = re.sub(r"^\s*ssl_certificate.*$", "", text, flags=re.M)
    paths = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    configuration.write_text(
        f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths}\n{text} }}\n"
    )
    with subprocess.Popen(["nginx", "-c", str(configuration), "-e", str(folder / "error.log")]) as nginx:
        try:
            yield
        finally:
            nginx.terminate()


@pytest.mark.slow
def test_events_pass_nginx_at_once(tmp_path: Path) -> None:
    require("nginx")
    port = find_free_port()
    with (
        serve(tmp_path, "--allow-host", "agents.example.com") as server,
        run_nginx(tmp_path, server.port, port),
    ):
        server.begin("s1", "hi")
        server.wait_for("s1", "done")
        deadline = time.monotonic() + 30
        while True:
            try:
                with server.stream("s1", port=port) as events:
                    # The stream stays open: what nginx kept back would never come.
                    kinds = [next(events).data["type"] for _ in range(3)]
                break
            except (ConnectionError, AssertionError):
                assert time.monotonic() < deadline
                time.sleep(0.1)
    assert kinds[0] == "init"
