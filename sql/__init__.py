"""The warehouse: tables, migrations, views, saved queries and the store, on SQLite or PostgreSQL.

Nothing is imported here: SQLAlchemy costs 0.2 s, which only the commands that use a warehouse should pay.
"""
