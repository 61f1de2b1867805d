"""LiveRunner: one Spark job of lanes, and the server on the driver that they talk to."""
