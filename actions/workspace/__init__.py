"""Files of the workspace: paths, text, atomic writes, snapshots; knows no tool and no model."""
