"""Ways in for the frameworks that duly is used with; each needs its own package installed."""
