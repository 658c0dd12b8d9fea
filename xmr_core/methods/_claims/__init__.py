"""Claims of papers that have many, a file each."""
