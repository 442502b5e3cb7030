"""What people look at: the console, TensorBoard, figures and the page of an evaluation."""
