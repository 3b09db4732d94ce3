"""The attentions, one file each: every class is called `Attention` and has the signature of `parts.base.Base`."""
