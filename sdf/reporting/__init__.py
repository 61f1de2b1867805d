"""What a run shows its user: progress, the report, the page."""
