"""The driver b43 by its module and by its source, as Agosto-Padilla's dissertation counted it."""
