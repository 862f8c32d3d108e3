"""Figures: functions from views to `plotly.graph_objects.Figure`."""
