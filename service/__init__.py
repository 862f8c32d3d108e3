"""Domain, statistics, database and HTTP API of Paceline."""
