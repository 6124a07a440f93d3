"""Middleware: functions of a program around the model calls and the tool calls of a session."""
