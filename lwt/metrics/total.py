"""Adding up what the metrics return for parts of a data set: numbers are added, lists joined, missing entries are new."""


def add(total, part):
    """``total + part`` entry by entry; both are dicts of numbers, arrays or lists, as ``sums`` of a metric returns them."""
    return total | {name: total[name] + value if name in total else value for name, value in part.items()}
