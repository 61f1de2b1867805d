"""Live splitting: lanes that run work items and steal from one another, and the coordinator on the driver. No Spark."""
