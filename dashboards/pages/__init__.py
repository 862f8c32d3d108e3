"""One module per page: PATH, Context, build(...), TEMPLATE. `dashboards/router.py` finds them."""
