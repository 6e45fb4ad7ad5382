"""Selection: who takes part in a round."""
