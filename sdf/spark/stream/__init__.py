"""stream_sdf: work without an end, in micro-batches with a journal."""
