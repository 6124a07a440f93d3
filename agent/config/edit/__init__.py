"""Changes settings files and keeps what their owner wrote in them."""
