"""What a run tells its user: progress, the report, the page."""
