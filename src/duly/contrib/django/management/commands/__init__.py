"""`manage.py duly`."""
