"""Walks a recorded run through today's program and finds the first step that comes out differently."""
