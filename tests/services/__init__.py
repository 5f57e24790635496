"""Real servers for tests: a Kafka broker, Beam's Prism runner, PostgreSQL.

`python -m tests.services` (make services) fetches and builds what they need, once, into a cache folder of the work
tree. Fixtures are in `tests.services.fixtures`. Every server listens on 127.0.0.1 or a socket file only, and is ended
by its own process id.
"""
