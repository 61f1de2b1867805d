"""The door to Spark: each name of Spark and Py4J that is private, or that not every version has, stands here.

Nothing else in sdf names one. Each module is for one topic, and says in which versions its names hold, and what happens
where a version lacks one.
"""
