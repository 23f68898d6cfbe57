"""Problems: what is to be made faster."""
