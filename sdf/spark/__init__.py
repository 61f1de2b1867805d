"""The runners on Spark, and the only package of sdf that names pyspark.

`run` hands an RDD of elements to a runner. A Spark job on the workers expands it into work items (`payload`, `jobs`).

- `staged`: stages of tasks. A task that has spent its budget gives back the rest, which joins a later stage.
- `live`: one Spark job of lanes, which split stragglers while they run (`sdf.lanes`).
- `stream`: `stream_sdf`, micro-batches with a journal.
- `source`: a DoFn as a data source of Spark SQL.

`broadcasts` frees what a run has sent when nobody can use it any more; `actions` are the RDDs that runners return.
"""
