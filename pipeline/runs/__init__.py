"""Job runs, one an attempt, out of scheduler records, job logs and their progress."""
