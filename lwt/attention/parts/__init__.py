"""What the attentions share: base class, masks, blocks, polynomial features, and a check of the approximation."""
