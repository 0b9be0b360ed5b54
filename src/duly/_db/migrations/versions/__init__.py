"""One file per version; its text per database stands beside it."""
