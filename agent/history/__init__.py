"""Reads recorded runs: replay, time travel, reports, telemetry and the tracking UI."""
