"""The classes that a user subclasses or uses: DoFn, restrictions, trackers, watermark estimators."""
