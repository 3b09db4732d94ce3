"""The parts of models; `linear` is the only place where an activation meets a weight.

In all modules, the field `dtype` is that of the operands of products, "float32" or "bfloat16"; results are float32.
"""
