"""What the problems of all kinds share: sources of instances, growth, figures of panels."""
