"""The only place that knows SQL, drivers and what a database's error codes mean."""
