"""Contracts: facts and how they merge, job runs, subjects, decisions, the diagnosis document, taxonomy, settings.

Nothing here imports another package of the project.
"""
