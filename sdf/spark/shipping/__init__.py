"""ship: sends sdf, and libraries in pure Python, to workers that do not have them.

- `ship`: the call: looks at what the workers have, sends what they lack, and sees that they import it.
- `libraries`: what this machine has, and the archive that is sent.
- `sessions`: how a job is run, and a file is sent, on Spark Connect and on classic Spark.
- `workers`: what runs on the workers, which may have no sdf.
"""
