"""Files of the workspace: paths, text, atomic writes, snapshots. This package knows no tool and no model."""
