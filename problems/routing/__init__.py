"""What the TSP and the CVRP share: nodes in the plane, distances, published costs."""
