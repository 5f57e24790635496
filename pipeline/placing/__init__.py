"""Whose log each source is, and what its stamps mean in UTC: hosts, zones, years and boots, decided late from all
facts."""
