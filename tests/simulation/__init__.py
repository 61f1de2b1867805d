"""One deterministic simulation of a run: all actors, one seed, one clock, one list of faults. See `simulation.world`."""
