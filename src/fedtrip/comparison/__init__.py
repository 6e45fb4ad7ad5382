"""Comparisons: variants, their trials, and the tables that one reads off them."""
