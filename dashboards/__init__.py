"""The pages people see: server-rendered HTML with Plotly figures, read through `service.db`."""
