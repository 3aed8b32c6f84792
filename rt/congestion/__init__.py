"""The congestion experiment of Agosto-Padilla's dissertation: a cell whose wire carries the traffic of others."""
