"""The tests, laid out like the folders that they test. A package, so that `tests` means these and not those of a dependency."""
