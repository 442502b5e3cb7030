"""What networks do on CPUs in C++, compiled for the machine at its first use."""
