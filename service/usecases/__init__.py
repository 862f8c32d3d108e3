"""What Paceline does: each use case reads, calls the pure core, writes; it never commits."""
