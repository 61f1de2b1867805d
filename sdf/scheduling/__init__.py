"""What the driver knows and decides: who owns which part (the ledger), what work costs, what runs next."""
