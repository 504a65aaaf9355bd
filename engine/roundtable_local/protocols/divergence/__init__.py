"""The divergence protocol: opinions are kept apart, and minorities reach the report (rules R-)."""
