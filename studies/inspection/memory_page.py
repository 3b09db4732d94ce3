"""One HTML file to browse feed-forward memories in: no server, nothing loaded from elsewhere, all text escaped."""

import html
import json

STYLE = """\
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222; }
input { font: inherit; padding: .3em .6em; width: 22em; }
summary { cursor: pointer; padding: .15em 0; }
details.layer > summary { font-weight: bold; font-size: 1.1em; margin-top: .6em; }
details.key { margin-left: 1.2em; }
table { border-collapse: collapse; margin: .2em 0 .8em 1.4em; }
td, th { padding: .1em .7em; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; color: #666; }
mark { background: #ffe39a; }
.rest, .share { color: #888; }
[hidden] { display: none; }
"""
SCRIPT = """\
const box = document.getElementById("search"), count = document.getElementById("count");
const keys = [...document.querySelectorAll("details.key")];
box.addEventListener("input", () => {
  const wanted = box.value.trim().toLowerCase();
  let shown = 0;
  for (const key of keys) {
    key.hidden = wanted !== "" && !JSON.parse(key.dataset.tokens).includes(wanted);
    shown += key.hidden ? 0 : 1;
  }
  for (const layer of document.querySelectorAll("details.layer"))
    layer.hidden = !layer.querySelector("details.key:not([hidden])");
  count.textContent = shown + " of " + keys.length + " keys";
});
box.dispatchEvent(new Event("input"));
"""


def page(title, layers):
    """The file's text.

    Args:
        title: of the page.
        layers: dicts of a layer's "name", what its values are compared with ("predicts"), and "keys", dicts by number:
            "values", a list of ``(token, probability)``, and "triggers", of ``(coefficient, (text before, token, text
            behind), answer)``. After JSON, numbers are texts and tuples are lists.
    """
    body = "\n".join(_layer(layer) for layer in layers)
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f"<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n"
        '<p><input id="search" placeholder="a token of a value or trigger" autofocus> <span id="count"></span></p>\n'
        f"{body}\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _layer(layer):
    keys = "\n".join(_key(number, key, layer["predicts"]) for number, key in layer["keys"].items())
    count = f"{len(layer['keys'])} keys"
    return f'<details class="layer"><summary>{html.escape(layer["name"])}, {count}</summary>\n{keys}\n</details>'


def _key(number, key, predicts):
    """One key: its value in the headline, its triggers below."""
    answers = [answer for _, _, answer in key["triggers"]]
    tokens = {token for token, _ in key["values"]} | {text[1] for _, text, _ in key["triggers"]}
    value = " ".join(
        f'{_token(token, marked=token in answers)} <span class="share">{share:.3f}</span>'
        for token, share in key["values"]
    )
    rows = "\n".join(
        f'<tr><td class="number">{coefficient:.3f}</td><td>{html.escape(before)} {_token(token, marked=True)} '
        f'<span class="rest">{html.escape(behind)}</span></td><td>{_token(answer)}</td></tr>'
        for coefficient, (before, token, behind), answer in key["triggers"]
    )
    return (
        f'<details class="key" data-tokens="{_listed(tokens)}"><summary>{number}: {value}</summary>\n'
        f"<table><tr><th>coefficient</th><th>trigger</th><th>{html.escape(predicts)}</th></tr>\n{rows}\n</table></details>"
    )


def _token(token, *, marked=False):
    text = html.escape(token) or "␠"
    return f"<mark>{text}</mark>" if marked else f"<b>{text}</b>"


def _listed(tokens):
    """Tokens as JSON inside of an attribute."""
    return html.escape(json.dumps(sorted(token.lower() for token in tokens), ensure_ascii=False))
