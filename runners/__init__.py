"""Workers: from a queued job to recorded pairs."""
