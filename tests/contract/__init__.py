"""What duly promises, asked of every database and through every way in."""
