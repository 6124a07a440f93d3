"""Language models: providers, wire formats, transports, prices."""
