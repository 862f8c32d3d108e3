"""Whether everything that Paceline needs is there: each check looks once and returns a Finding."""
