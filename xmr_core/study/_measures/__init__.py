"""Functions of study.measures, a file for each family of methods: a trained run in, rows of its metrics table out."""
