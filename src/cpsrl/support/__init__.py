"""What all parts of the package use: registries, checks, stored trees, files, interruption."""
