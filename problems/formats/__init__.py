"""Reading the file formats of the benchmark libraries; every error names file, line and rule."""
