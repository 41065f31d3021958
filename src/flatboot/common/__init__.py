"""What all else stands on: files, processes, progress, units, errors, architectures."""
