"""What the driver records and decides: who owns which part (the ledger), what work costs, what runs next."""
