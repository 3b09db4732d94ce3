"""The machinery of studies: many runs, their records, tables, plots and pages."""
