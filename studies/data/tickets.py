"""A made-up table of support tickets in 12 classes, with the faults of real tables.

Some rows have no text or no label, are repeated, contradictory or malformed; some labels are rare, misspelled or wrong.

    python -m studies.data.tickets --rows=1000 --out=tickets.csv
    python -m studies.data.tickets --rows=3000 --out=tickets.csv --new=new.csv

`table` makes it, `write` writes a CSV, and `write_new` one of tickets without a label.
"""

import csv
import io
import pathlib
import random

from absl import flags

from lwt.machine import command_line

TOPICS = {  # label -> (opening phrases, things, requests)
    "Billing": ("I was charged twice for|The invoice shows the wrong amount for|There is an unknown fee on",
                "my subscription|the March invoice|my card statement|the annual plan", "Please correct the bill"),
    "Refund": ("I would like my money back for|How do I get a refund for|I am still waiting for the repayment of",
               "the cancelled order|the broken headphones|the duplicate purchase", "When will it arrive on my account"),
    "Shipping": ("My parcel has not arrived with|The tracking page shows no news about|The courier lost",
                 "the order of last week|my package|the delivery to Lyon", "Where is it now"),
    "Return": ("I want to send back|The size is wrong, so I return|How do I print a label to send back",
               "the shoes|the blue jacket|a lamp that I ordered", "Which address do I use"),
    "Login": ("I cannot sign in to|The password reset mail never comes for|I am locked out of",
              "my account|the customer portal|the app since the update", "Please unlock it"),
    "Bug report": ("The app crashes when I open|An error message appears in|The page stays blank on",
                   "the settings|the photo upload|the checkout on Android", "The log is attached"),
    "Feature request": ("It would be great to have|Could you add|I am missing",
                        "a dark mode|an export to Excel|keyboard shortcuts", "Many of us would use it"),
    "Cancellation": ("Please cancel|I want to end|Stop the renewal of",
                     "my membership|the trial|my contract at the end of the month", "Confirm it by mail"),
    "Account data": ("Please change|I have moved and need to update|My name is misspelled in",
                     "my postal address|the mail address of the profile|the phone number", "The new one is below"),
    "Warranty": ("It broke after two months:|Does the guarantee cover|The repair was refused for",
                 "the coffee machine|a scratched display|the battery", "I have the receipt"),
    "Complaint": ("I am very unhappy with|Nobody answered my calls about|It was rude how your staff treated",
                  "the service in the shop|the waiting time|your hotline", "I expect an apology"),
    "Praise": ("Thank you for|I just want to say how happy I am with|Great work on",
               "the fast help|the friendly support|the new design", "Keep it up"),
}  # fmt: skip
NOISE = ("Hello,", "Hi team,", "Good morning,", "Dear support,", "", "", "URGENT!", "Hey,", "To whom it may concern,")
ENDS = ("Thanks.", "Best regards, Ana", "Kind regards", "", "", "Sent from my phone", "Cheers, Tom", "Merci, José")
WRONG = {  # label -> what a tired person types instead
    "Billing": ("billing", "Biling"), "Refund": ("refund", "Refnud"), "Bug report": ("bug report", "Bug-report"),
    "Shipping": ("SHIPPING", "Shiping"),
}  # fmt: skip
MESS = {  # kind -> share of the rows
    "no text": 0.010, "no label": 0.010, "repeated": 0.020, "nearly repeated": 0.012, "contradictory": 0.008,
    "malformed": 0.003, "mislabelled": 0.02,
}  # fmt: skip


def table(rows=3000, *, seed=0, hard=0.06):
    """``(records, counts)``: pairs of text and label (a malformed row has three cells); and what is wrong, counted.

    Args:
        rows: of the table.
        seed: of everything random.
        hard: the share of texts that mention another topic as well.
    """
    rng = random.Random(seed)
    amounts = {kind: max(2, round(share * rows)) for kind, share in MESS.items()}
    amounts["contradictory"] += amounts["contradictory"] % 2  # they come in pairs
    rare = [("Quantum", _text(rng, "Praise", 10**6)), ("Legal", _text(rng, "Complaint", 10**6 + 1))]
    rare.append(("Legal", _text(rng, "Complaint", 10**6 + 2)))
    clean = rows - sum(amounts.values()) - len(rare) + amounts["contradictory"] // 2 + amounts["mislabelled"]
    names = rng.choices(list(TOPICS), weights=[12, 9, 12, 8, 10, 8, 5, 7, 6, 4, 6, 5], k=clean)
    records = [(_text(rng, name, i, hard=hard), name) for i, name in enumerate(names)]
    for i in rng.sample(range(clean), amounts["mislabelled"]):
        records[i] = records[i][0], rng.choice([label for label in TOPICS if label != records[i][1]])
    records, spelled = _respelled(rng, records)
    base = [(text, label) for text, label in records if label in TOPICS]
    picks = rng.sample(range(len(base)), amounts["repeated"] + amounts["nearly repeated"] + amounts["contradictory"])
    again = [base[i] for i in picks[: amounts["repeated"]]]
    near = [
        (f"  {base[i][0].upper()} ", base[i][1]) for i in picks[amounts["repeated"] :][: amounts["nearly repeated"]]
    ]
    pairs = picks[-amounts["contradictory"] :][: amounts["contradictory"] // 2]
    against = [(base[i][0], "Praise" if base[i][1] != "Praise" else "Login") for i in pairs]
    empty = [(rng.choice(("", "   ", "\n", "https://example.org/ticket/1")), rng.choice([*TOPICS])) for _ in
             range(amounts["no text"])]  # fmt: skip
    unlabelled = [(_text(rng, "Login", 10**6 + 10 + i), rng.choice(("", " "))) for i in range(amounts["no label"])]
    broken = [(_text(rng, "Refund", 10**6 + 9000 + i), "Refund", "too many") for i in range(amounts["malformed"])]
    records += again + near + against + empty + unlabelled + broken + [(text, label) for label, text in rare]
    rng.shuffle(records)
    return records, amounts | spelled | {"rows": len(records)}


def _text(rng, name, number, *, hard=0.0):
    """A text on a topic; its number keeps it apart from all others."""
    parts = [rng.choice(NOISE), *(rng.choice(part.split("|")) for part in TOPICS[name])]
    if rng.random() < hard:
        other = TOPICS[rng.choice(list(TOPICS))]
        parts = [parts[0], rng.choice(other[1].split("|")) + ".", *parts[1:]]
    if rng.random() < 0.1:
        parts.insert(1, f"Order\nno. {number},")
    words = " ".join(filter(None, [*parts[:-1], parts[-1] + ".", f"Ticket {number}.", rng.choice(ENDS)]))
    if rng.random() < 0.15:  # two letters change places
        at = rng.randrange(len(words) - 12)
        words = words[:at] + words[at + 1] + words[at] + words[at + 2 :]
    return words


def _respelled(rng, records):
    """``(records, counts)``: some labels in another spelling, or with a space around them."""
    found, counts = [], {"alike": 0, "typos": 0, "spaced": 0}
    for text, label in records:
        chance = rng.random()
        if label in WRONG and chance < 0.04:
            label, kind = (WRONG[label][0], "alike") if chance < 0.025 else (WRONG[label][1], "typos")
            kind = "alike" if label == "Bug-report" else kind
            counts[kind] += 1
        elif chance > 0.99:
            label, counts["spaced"] = f"{label} ", counts["spaced"] + 1
        found.append((text, label))
    return found, counts


def write(path, rows=3000, *, seed=0, separator=",", encoding="utf-8", columns=("text", "category")):
    """Writes the table as a CSV, with a number before every row; returns what is wrong with it, counted."""
    records, counts = table(rows, seed=seed)
    content = io.StringIO()
    writer = csv.writer(content, delimiter=separator)
    writer.writerow(["id", *columns])
    writer.writerows([i, *record] for i, record in enumerate(records, 1))
    pathlib.Path(path).write_bytes(content.getvalue().encode(encoding))
    return counts


def write_new(path, rows=200, *, seed=1):
    """Writes other tickets as a CSV with the columns id and text; some texts are empty or span two lines."""
    rng, names = random.Random(f"new {seed}"), list(TOPICS)
    texts = ["" if i % 50 == 49 else _text(rng, rng.choice(names), 10**7 + i) for i in range(rows)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "text"], *enumerate(texts, 1)])


def main():
    """The program."""
    given = flags.FLAGS
    counts = write(given.out, given.rows)
    print(f"{given.out}: {', '.join(f'{kind} {count:,}' for kind, count in counts.items())}")
    if given.new:
        write_new(given.new)
        print(f"{given.new}: tickets without a label")


if __name__ == "__main__":
    flags.DEFINE_integer("rows", 3000, "Rows of the table.", lower_bound=100)
    flags.DEFINE_string("out", None, "CSV to write.")
    flags.DEFINE_string("new", "", "Another CSV to write, of tickets without a label.")
    command_line.run(main, required=["out"])
