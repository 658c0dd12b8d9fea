"""What all rooms stand on: types, checks, errors, files, and names of content."""
