"""Elements in bulk: many small elements are one table, and a run of its rows is one work item.

To run an element by itself costs some fifty microseconds: an entry in the ledger, messages, an invoker. A table is an
element like any other to the ledger, the planner and the coordinator. Its restriction is a range of positions
(`Rows`), each of which is a row and how far into it, so the ledger's proof of the tiling holds as it is. Only what
looks inside knows of rows: `table` has the values, `making` decides on a worker which elements go into a table,
`invoker` runs the rows of a work item, and `sdf.execution.work` sizes and cuts them.

A work item is cut between two rows, or inside the row that runs if that is long. Then the rest of this row is a work
item of its own, as if the element had never been in a table.
"""
