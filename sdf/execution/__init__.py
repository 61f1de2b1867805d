"""One work item on a worker: made, invoked, measured, split, deferred. No clock of its own, no Spark."""
