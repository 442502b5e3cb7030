"""The best of several arms, from few of their rewards [MAB]."""
