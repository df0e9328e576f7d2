"""Device memory of recorded launches, and its way to the capture file."""
