"""The Spark runners, and the only package of sdf that names pyspark.

`run` hands an RDD of elements to a runner; both expand it on the workers (`payload`), in a Spark job that `jobs` runs.

Follow one element through `staged`: its work items are planned into stages, and what each task did is entered in the
ledger. `stage.StageTask` runs a task on an executor and writes its block (`blocks`), whose receipt comes back to the
driver (`receipts`). The result reads the committed blocks (`stage.ReadCommitted`).

Follow it through `live`: its work items are dealt out to lanes. `link.LaneTask` is the task that runs a lane on an
executor and yields its records; what it does at each step is in `lane`. It talks to the driver in the words of `wire`,
restrictions told as in `sdf.values`. There `server` has the sockets, `coordinator` takes what lanes say, `giving`
decides what each lane runs next and when it is sealed, and `balance` who gives to whom.

Follow it through `stream`: `batches` is the loop of the driver and speaks to the journal, `microbatch` runs one step of
one batch, with the tasks and the readers of `stage`.
"""
