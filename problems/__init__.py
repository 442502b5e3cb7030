"""Problems: batched states, masks and costs, and the instance sets they are measured on."""
