"""Tables, sessions and every query. No other package writes `select(`."""
