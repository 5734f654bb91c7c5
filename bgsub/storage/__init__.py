"""Files on disk: atomic and durable writes, growing files, locks, models and checkpoints."""
