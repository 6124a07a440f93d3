"""What the gate decided in recorded sessions, and would decide under other rules."""
