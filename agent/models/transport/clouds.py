"""Models in the clouds Azure OpenAI, Amazon Bedrock and Google Vertex, through clients of the libraries."""

import os
import warnings
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from ....state.errors import ConfigError, CredentialsError
from ....state.process.installation import make_install_command
from ..failures import readable
from ..providers import Cloud, Endpoint, Profile

_AZURE_VERSION = "2025-04-01-preview"
"""The last dated version of the API. It supports Responses and the fields of reasoning models."""
_AWS_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AWS_KEYS = {
    "aws_access_key": "AWS_ACCESS_KEY_ID",
    "aws_secret_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "aws_profile": "AWS_PROFILE",
}
_GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_GOOGLE_PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")
_GOOGLE_REGIONS = ("CLOUD_ML_REGION", "GOOGLE_CLOUD_LOCATION")
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_VARIABLES: Mapping[Cloud, tuple[str, ...]] = {
    "azure": ("OPENAI_API_VERSION",),
    "bedrock": (*_AWS_REGIONS, *_AWS_KEYS.values()),
    "vertex": (_GOOGLE_FILE, *_GOOGLE_PROJECTS, *_GOOGLE_REGIONS),
}
"""Cloud -> the environment variables for its client, besides those for the key and the address."""


def find_cloud_variables(cloud: Cloud, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for this cloud that are set."""
    return {name: value for name in _VARIABLES[cloud] if (value := env.get(name, "").strip())}


def usual_address(profile: Profile, env: Mapping[str, str]) -> str:
    """Return the cloud's address from the environment. Raises `ConfigError` if a required address is
    missing."""
    if profile.cloud == "azure":
        raise ConfigError(
            f"No address for {profile.name}: {profile.url_env[0]} is not set.",
            f"Run: export {profile.url_env[0]}=https://NAME.openai.azure.com",
        )
    if profile.cloud == "bedrock":
        return f"https://bedrock-runtime{_region_suffix(_first(env, _AWS_REGIONS))}.amazonaws.com"
    return "https://aiplatform.googleapis.com/v1"


def _region_suffix(region: str) -> str:
    return f".{region}" if region else ""


def _first(env: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := env.get(name, "").strip())), "")


def start_client(endpoint: Endpoint, module: ModuleType, options: dict[str, Any]) -> Any:
    """Return the library's client for this cloud. It searches for credentials, which may take seconds.

    Raises `CredentialsError` if it finds none, and `ConfigError` for a missing package or setting.
    """
    cloud = endpoint.profile.cloud or "azure"
    starts = {"azure": _azure, "bedrock": _bedrock, "vertex": _vertex}
    try:
        return starts[cloud](endpoint, module, options)
    except ImportError as error:
        raise ConfigError(
            f"{endpoint.provider} needs packages that are not installed"
            f" ({(error.name or str(error)).partition('.')[0]}).",
            f"Install it with: {make_install_command(cloud)}",
        ) from None


def _azure(endpoint: Endpoint, module: Any, options: dict[str, Any]) -> Any:
    is_token = endpoint.key_env == "AZURE_OPENAI_AD_TOKEN"
    return module.AsyncAzureOpenAI(
        **{"azure_ad_token" if is_token else "api_key": endpoint.api_key},
        azure_endpoint=endpoint.base_url,
        api_version=endpoint.env.get("OPENAI_API_VERSION", _AZURE_VERSION),
        **options,
    )


def _bedrock(endpoint: Endpoint, module: Any, options: dict[str, Any]) -> Any:
    boto3: Any = import_module("boto3")
    given = {name: endpoint.env.get(variable) for name, variable in _AWS_KEYS.items()}
    if given["aws_access_key"] is None or given["aws_secret_key"] is None:
        given |= dict.fromkeys(("aws_access_key", "aws_secret_key", "aws_session_token"))
    try:
        session = boto3.Session(profile_name=given["aws_profile"])
        is_known = bool(endpoint.api_key or given["aws_access_key"] or session.get_credentials())
        region = _first(endpoint.env, _AWS_REGIONS) or session.region_name
    except sign_in_errors("bedrock") as error:
        raise credentials_error(endpoint, error) from None
    if not is_known:
        raise CredentialsError(f"No credentials for {endpoint.provider}: AWS knows none here.", _AWS_WAYS)
    if not region:
        raise ConfigError("No region for bedrock: AWS_REGION is not set.", "Run: export AWS_REGION=...")
    address = {"base_url": endpoint.base_url} if endpoint.has_own_address else {}
    # `None` would make the library look for a key in the environment of the process; an empty key does not.
    client = module.AsyncAnthropicBedrock(aws_region=region, api_key=endpoint.api_key, **address, **options)
    if not endpoint.api_key:
        client.api_key = None
        for name, value in given.items():
            setattr(client, name, value)
    return client


def _vertex(endpoint: Endpoint, module: Any, options: dict[str, Any]) -> Any:
    try:
        credentials, own_project = _google_credentials(endpoint.env.get(_GOOGLE_FILE))
    except sign_in_errors("vertex") as error:
        raise credentials_error(endpoint, error) from None
    project = _first(endpoint.env, _GOOGLE_PROJECTS) or own_project
    region = _first(endpoint.env, _GOOGLE_REGIONS)
    for value, what, names in ((project, "project", _GOOGLE_PROJECTS), (region, "region", _GOOGLE_REGIONS)):
        if not value:
            raise ConfigError(
                f"No {what} for {endpoint.provider}: {names[0]} is not set.", f"Run: export {names[0]}=..."
            )
    address = {"base_url": endpoint.base_url} if endpoint.has_own_address else {}
    return module.AsyncAnthropicVertex(
        project_id=project, region=region, credentials=credentials, **address, **options
    )


def _google_credentials(file: str | None) -> tuple[Any, str | None]:
    """Return the Google credentials and their project. The token is fetched with the first request."""
    library: Any = import_module("google.auth")
    # The renewal of a token needs this package, which may be missing.
    import_module("google.auth.transport.requests")
    if not file or file == os.environ.get(_GOOGLE_FILE):
        return library.default(scopes=[_GOOGLE_SCOPE])
    with warnings.catch_warnings():
        # The library warns about files from untrusted sources, but the user named this file.
        warnings.simplefilter("ignore", DeprecationWarning)
        return library.load_credentials_from_file(file, scopes=[_GOOGLE_SCOPE])


_AWS_WAYS = (
    "Set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run:"
    " aws sso login"
)
_GOOGLE_WAYS = f"Run `gcloud auth application-default login`, or set {_GOOGLE_FILE} to the file of a key."


def credentials_error(endpoint: Endpoint, error: Exception) -> CredentialsError:
    """Return the error for credentials that the cloud's own library rejects."""
    ways = {"bedrock": _AWS_WAYS, "vertex": _GOOGLE_WAYS}
    reason = str(error.args[0]) if error.args else type(error).__name__
    return CredentialsError(
        f"No credentials for {endpoint.provider}: {readable(reason, endpoint).rstrip('.')}.",
        ways.get(endpoint.profile.cloud or "", ""),
    )


def sign_in_errors(cloud: Cloud) -> tuple[type[Exception], ...]:
    """Return the types of the exceptions that a client raises if it cannot sign a request."""
    named = {
        "bedrock": ("botocore.exceptions", "BotoCoreError"),
        "vertex": ("google.auth.exceptions", "GoogleAuthError"),
    }
    if cloud not in named:
        return ()
    module, name = named[cloud]
    return (getattr(import_module(module), name),)
