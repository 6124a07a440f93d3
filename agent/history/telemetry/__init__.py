"""Tells an OpenTelemetry collector what runs do; imported only where a person switched it on."""
