"""What lies on disk: files that are whole or not at all, files that grow, models."""
