"""From a base to an image: sources, hooks and overlay, configs, builds, packages, the series."""
