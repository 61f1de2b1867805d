"""What a user subclasses and is given: DoFn, restrictions, trackers, watermark estimators."""
