"""Statistics as functions of their arguments; docs/method.md explains them in prose."""
