"""The software bill of materials: what an installation of Sandbur consists of, as CycloneDX JSON."""

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SPEC = "1.6"
_ROOT = "sandbur"
_LICENSE_FIELD_CHARS = 60
"""A longer `License` field holds the whole text of a licence, and no name."""


class Package(NamedTuple):
    """A package that is installed, or that an installation would bring."""

    metadata: Mapping[str, Any]
    sha256: str = ""

    @property
    def name(self) -> str:
        return canonicalize_name(str(self.metadata["name"]))

    @property
    def reference(self) -> str:
        """The address of the package as a package URL, which is also its name in the document."""
        return f"pkg:pypi/{self.name}@{self.metadata['version']}"


def installed_packages() -> dict[str, Package]:
    """Return the packages of this environment by name."""
    found = [Package(one.metadata.json) for one in distributions()]
    return {one.name: one for one in reversed(found)}  # the first of two on the path is the one that counts


def reported_packages(report: Path) -> dict[str, Package]:
    """Return the packages of a report of `pip install --dry-run --report`, with the hashes of their files."""
    entries = json.loads(report.read_text("utf-8"))["install"]
    found = [
        Package(
            entry["metadata"],
            entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256", ""),
        )
        for entry in entries
    ]
    return {one.name: one for one in found}


def required_packages(packages: Mapping[str, Package], extras: Iterable[str]) -> dict[str, set[str]]:
    """Return the name of each package that Sandbur needs here -> the names of those that it needs itself."""
    edges: dict[str, set[str]] = {}
    waiting = [(_ROOT, frozenset({"", *extras}))]
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in done:
            continue
        done.add((name, wanted))
        edges.setdefault(name, set())
        for line in packages[name].metadata.get("requires_dist", ()):
            needed = Requirement(line)
            if needed.marker and not any(needed.marker.evaluate({"extra": extra}) for extra in wanted):
                continue
            other = canonicalize_name(needed.name)
            if other not in packages:
                raise SystemExit(f"{name} needs {other}, which is not here: install it, and try again.")
            edges[name].add(other)
            waiting.append((other, frozenset({"", *needed.extras})))
    return edges


def make_document(packages: Mapping[str, Package], extras: Iterable[str] = ()) -> dict[str, Any]:
    """Return the document. The same packages give the same bytes, with the date of `SOURCE_DATE_EPOCH`."""
    edges = required_packages(packages, extras)
    others = [packages[name] for name in sorted(edges) if name != _ROOT]
    document: dict[str, Any] = {
        "$schema": f"http://cyclonedx.org/schema/bom-{SPEC}.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": SPEC,
        "version": 1,
        "metadata": {**_timestamp(), "component": _component(packages[_ROOT], "application")},
        "components": [_component(one, "library") for one in others],
        "dependencies": [
            {
                "ref": packages[name].reference,
                "dependsOn": sorted(packages[other].reference for other in needs),
            }
            for name, needs in sorted(edges.items())
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(document, sort_keys=True))
    return {**document, "serialNumber": f"urn:uuid:{serial}"}


def _timestamp() -> dict[str, str]:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return {"timestamp": datetime.fromtimestamp(int(epoch), UTC).isoformat()} if epoch else {}


def _component(package: Package, kind: str) -> dict[str, Any]:
    metadata = package.metadata
    made: dict[str, Any] = {
        "type": kind,
        "bom-ref": package.reference,
        "name": package.name,
        "version": metadata["version"],
        "purl": package.reference,
    }
    if summary := str(metadata.get("summary", "")):
        made["description"] = summary
    if license := _license(metadata):
        made["licenses"] = [license]
    if package.sha256:
        made["hashes"] = [{"alg": "SHA-256", "content": package.sha256}]
    return made


def _license(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the licence: its SPDX expression, else the name in a short field, else that of a classifier."""
    if expression := metadata.get("license_expression"):
        return {"expression": expression}
    named = " ".join(str(metadata.get("license", "")).split())
    if named and len(named) <= _LICENSE_FIELD_CHARS:
        return {"license": {"name": named}}
    lines = metadata.get("classifier", ())
    names = [line.split(" :: ")[-1] for line in lines if line.startswith("License ::")]
    return {"license": {"name": names[0]}} if names else None
