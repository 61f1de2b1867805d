"""The Spark runners, and the only package of sdf that names pyspark.

Follow one element: `run` hands it to a runner. `staged` expands it (`payload.Expand`), plans its work items into
stages, and enters in the ledger what each task did. `stage.StageTask` runs a task on an executor and writes its block
(`blocks`), whose receipt comes back to the driver (`receipts`). The result reads the committed blocks
(`stage.ReadCommitted`). `jobs` runs the Spark jobs underneath.
"""
