"""The stream without Beam: plain functions that `pipeline.beam.stream_*` wires, and what runs beside the pipeline."""
