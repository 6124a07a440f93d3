"""HTTP tools: single requests, and operations of APIs, that a configuration file makes tools of sessions."""

from ...config.setting import Flag, Setting
from ..extension import Extension

EXTENSION = Extension(
    name="http_tools",
    about="HTTP requests and operations of APIs as tools, from a configuration file",
    page="http.md",
    folders=("agent/extensions/http_tools", "actions/tools/http"),
    settings=(
        Setting(
            "http_tools",
            {},
            "tables",
            "entries",
            about="tools that are HTTP requests, by name",
            reader=".agent.extensions.http_tools.configured_tools:HttpToolsReader",
            of_command=True,
            after="transport",
        ),
        Setting(
            "openapi",
            {},
            "tables",
            "entries",
            about="APIs of which some operations are tools, by name",
            reader=".agent.extensions.http_tools.configured_tools:OpenApiReader",
            of_command=True,
            after="http_tools",
        ),
        Setting(
            "variables",
            (),
            "variables",
            group="run",
            flag=Flag(("--var",), "NAME=VALUE", "what {var.NAME} is in HTTP tools; repeatable"),
            about="what {var.NAME} is in HTTP tools, as NAME=VALUE",
            after="openapi",
        ),
    ),
    runtime=".agent.extensions.http_tools.configured_tools:HttpToolsRuntime",
    is_used=lambda settings, session: bool(settings.of("http_tools") or settings.of("openapi")),
)
