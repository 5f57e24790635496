"""The stream while things die: workers, runner, supervisor, database and broker; real servers, real processes."""
