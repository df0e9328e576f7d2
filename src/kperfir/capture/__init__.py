"""Raw bytes: from the device's memory to a capture file, and back from the file."""
