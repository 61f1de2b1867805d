"""One deterministic simulation of runs: all actors, one seed, one clock, one list of faults. See `simulation.world`."""
