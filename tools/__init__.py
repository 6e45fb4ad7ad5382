"""What keeps the repository's generated pages true; not part of the package."""
