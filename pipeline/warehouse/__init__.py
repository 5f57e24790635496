"""The path through SQL: loading facts, and deciding again what a load touched."""
