"""From findings to what people look at: tables, plots, the report."""
