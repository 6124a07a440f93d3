"""The files of the workspace: paths, text, atomic writes, snapshots. This package does not depend on tools or
models.
"""
