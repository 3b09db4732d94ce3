"""Ways to make a model lighter: compression, rank allocation, quantization, search, and a recipe that chains them."""
