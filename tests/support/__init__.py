"""What tests share: DoFns, clocks, simulations, programs that are killed."""
