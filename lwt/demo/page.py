"""The page: the input on the left, the answer on the right, and below what happened inside the model."""

import functools
import html
import logging
import pathlib
import socket
import tempfile
import urllib.parse

import gradio
from starlette import middleware, responses

from lwt import errors, trees
from lwt.demo import pictures, session

LOG = logging.getLogger(__name__)
LOCAL = ("localhost", "127.0.0.1", "::1")  # names of this machine
EVERYWHERE = ("", "0.0.0.0", "::")  # hosts that serve the whole network, under names that we cannot know
ALL = "all heads"
DECODING = {"greedy": 1, f"beam search, {session.BEAMS} beams": session.BEAMS}
DO = {"translation": "Translate", "class": "Classify", "number": "Rate", "": "Look inside"}
EXAMPLES = 4
CSS = """\
#answer { max-height: 30em; overflow-y: auto; }
#about h1 { margin: 0; font-size: 1.5em; }
#about p { margin: .1em 0 0; opacity: .7; }
#message p, #table-message p {
  margin: 0; padding: .6em .9em; border-left: 3px solid #d55e00; background: rgba(213, 94, 0, .1);
}
.note { margin: .2em 0 .6em; opacity: .7; }
table.memories { width: 100%; border-collapse: collapse; font-size: .92em; }
table.memories, table.memories tr { border: 0 !important; }
table.memories th { text-align: left; font-weight: 600; opacity: .6; }
table.memories td, table.memories th { padding: .35em .8em .35em 0; border: 0; vertical-align: top; }
table.memories tr + tr td { border-top: 1px solid var(--border-color-primary); }
table.memories td:nth-child(-n+2) { white-space: nowrap; font-variant-numeric: tabular-nums; }
table.memories td:nth-child(2) { min-width: 6em; }
.memories mark { background: #ffe39a; color: #222; padding: 0 .25em; border-radius: 3px; }
.memories .bar { height: 4px; margin: .2em 0; border-radius: 2px; background: #0072b2; }
.memories .word { white-space: nowrap; margin-right: .7em; }
.memories small { opacity: .55; }
@media (max-width: 640px) {  /* on a phone the picture scrolls, and the tokens beside it stay readable */
  #attention img { min-width: 44em; }
  #attention :has(> img) { align-items: safe center; overflow-x: auto; }
}
"""
ABOUT_ATTENTION = {
    False: "Rows: the tokens that attend (in a decoder, the tokens being written). Columns: the tokens they attend to. "
    "Darker is more.",
    True: "Where the class token attends, or without one the mean over all patches. Brighter is more.",
}
TABLES = (".csv", ".tsv", ".jsonl", ".parquet", ".txt")
ABOUT_TABLES = (
    "Upload a .csv, .tsv, .jsonl or .parquet file with a column {fields}, or a .txt file with a text per line. You get "
    "the same file with the answers."
)
ABOUT_MEMORIES = (
    "A feed-forward layer as memories: a key responds to the text at a position (marked) and adds its value there. "
    "The tokens that a value alone makes likeliest are shown with how many times likelier than chance they become."
)


class Page:
    """The page of a `session.Session`: its components and their events; Gradio launches its `blocks`."""

    def __init__(self, served):
        self._session = served
        self._images = served.inputs.fields == ("Image",)
        name = served.experiment.workdir.rstrip("/").rpartition("/")[2]
        with gradio.Blocks(title=f"lwt: {name}", analytics_enabled=False) as self.blocks:
            gradio.HTML(self._about(name), elem_id="about")
            with gradio.Row():
                with gradio.Column():
                    self._ask()
                with gradio.Column():
                    self._reply()
            with gradio.Tabs(visible=bool(served.heads or served.layers)):
                self._attention_tab()
                self._memory_tab()
            self._table_of_texts()
            self._seen = gradio.State(None)
            self._connect()
        self.blocks.process_api = functools.partial(_in_one_line, self.blocks.process_api)

    def run(self, *values):
        """Handles the button: yields the answer first, then what happened inside; or an error message."""
        count = len(self._given)
        given, (adapter, decoding, name, head, layer) = values[:count], values[count:]
        answer = None
        try:
            if self._session.kind:
                answer = self._session.answer(given, adapter=adapter, beams=DECODING[decoding])
                yield {self._message: "", self._answer: self._shown(answer)}
            seen = (self._session.look(given, adapter=adapter, answer=answer), given)
            yield {
                self._message: "",
                self._seen: seen,
                self._plot: self._draw(seen, name, head),
                self._table: self._tell(seen, layer),
            }
        except errors.LwtError as error:
            yield {
                self._message: _alert(str(error)),
                self._answer: None,
                self._seen: None,
                self._plot: None,
                self._table: "",
            }

    def _draw(self, seen, name, head):
        """The picture of an attention, of one head or all; None before the first run."""
        if not seen or not self._session.heads:
            return None
        found, given = seen
        head = None if head == ALL else int(head)
        if self._images:
            return pictures.attention_to_image(found.attentions[name], given[0], head=head)
        return pictures.attention(found.attentions[name], head)

    def _tell(self, seen, layer):
        """The table of a layer's memories."""
        return pictures.memories(seen[0].memories[layer], seen[0].through) if seen and self._session.layers else ""

    def _about(self, name):
        experiment = self._session.experiment
        facts = f"{experiment.config.model.name}, {trees.count(experiment.weights):,} weights, step {experiment.step:,}"
        return f"<h1>{html.escape(name)}</h1><p>{html.escape(facts)}</p>"

    def _ask(self):
        """Lays out the inputs and the choices of adapter and decoding."""
        fields, names = self._session.inputs.fields, self._session.names
        if self._images:
            image = gradio.Image(type="filepath", image_mode=None, label=fields[0], height=260)
            image.preprocess = _path_of  # Gradio would open the file; the run reads it, and says what is wrong with it
            self._given = [image]
        else:
            lines = 3 if len(fields) == 1 else 2
            self._given = [
                gradio.Textbox(label=field, lines=lines, max_lines=12, submit_btn=False, elem_id=f"given-{i}")
                for i, field in enumerate(fields)
            ]
        self._adapter = gradio.Radio(names, value=names[0], label="Adapter", visible=len(names) > 1, elem_id="adapter")
        decodes, ways = self._session.kind == "translation", list(DECODING)
        self._decoding = gradio.Radio(ways, value=ways[0], label="Decoding", visible=decodes, elem_id="decoding")
        self._button = gradio.Button(DO[self._session.kind], variant="primary", elem_id="run")
        examples = [list(example) for example in self._session.inputs.examples(EXAMPLES)]
        if examples:
            gradio.Examples(examples, inputs=self._given, label="From the validation set")

    def _reply(self):
        kind = self._session.kind
        if kind == "translation":
            self._answer = gradio.Textbox(label="Translation", lines=3, interactive=False, elem_id="answer")
        else:
            label = "Probabilities" if kind == "class" else "Answer"
            self._answer = gradio.Label(label=label, visible=bool(kind), elem_id="answer")
        self._message = gradio.HTML("", elem_id="message")

    def _attention_tab(self):
        heads = self._session.heads
        names = list(heads) or [""]
        first = next((name for name in reversed(names) if "cross" in name), names[0])
        with gradio.Tab("Attention", visible=bool(heads)):
            gradio.HTML(f'<p class="note">{ABOUT_ATTENTION[self._images]}</p>')
            with gradio.Row():
                self._name = gradio.Dropdown(
                    names, value=first, label="Layer", min_width=260, elem_id="attention-layer"
                )
                self._head = gradio.Dropdown(
                    self._heads_of(first), value=ALL, label="Head", min_width=260, elem_id="head"
                )
            self._plot = gradio.Plot(show_label=False, format="png", elem_id="attention")

    def _memory_tab(self):
        layers = list(self._session.layers) or [""]
        with gradio.Tab("Memories", visible=bool(self._session.layers)):
            gradio.HTML(f'<p class="note">{ABOUT_MEMORIES}</p>')
            self._layer = gradio.Dropdown(layers, value=layers[-1], label="Layer", elem_id="memory-layer")
            self._table = gradio.HTML("", elem_id="memories")

    def _table_of_texts(self):
        """Lays out the upload of a table, and the answers to it."""
        if self._images or not self._session.kind:
            return
        with gradio.Accordion("A whole table", open=False, elem_id="table"):
            fields = " and ".join(self._session.inputs.data.input_fields)
            gradio.HTML(f'<p class="note">{html.escape(ABOUT_TABLES.format(fields=fields))}</p>')
            given = gradio.File(label="Table", file_types=list(TABLES), file_count="single", elem_id="given-table")
            answers = gradio.File(label="Table with answers", interactive=False, elem_id="answered-table")
            message = gradio.HTML("", elem_id="table-message")
        gradio.on([given.upload, self._adapter.input], self.answer_table, [given, self._adapter], [answers, message])

    def answer_table(self, path, adapter):
        """Answers a table: the path of the file with answers or None, and an error message."""
        if not path:
            return None, ""
        path = pathlib.Path(path)
        out = pathlib.Path(tempfile.mkdtemp(prefix="lwt-demo-"), f"{path.stem}-answers{path.suffix}")
        try:
            self._session.table(str(path), str(out), adapter=adapter)
        except errors.LwtError as error:
            return None, _alert(str(error).replace(str(path), path.name))
        return str(out), ""

    def _connect(self):
        asked = [*self._given, self._adapter, self._decoding, self._name, self._head, self._layer]
        found = [self._message, self._answer, self._seen, self._plot, self._table]
        events = [self._button.click, self._adapter.input, self._decoding.input]
        events += [] if self._images else [box.submit for box in self._given]
        last = {"trigger_mode": "always_last"}  # clicks while the page is busy are not lost
        gradio.on(events, self.run, asked, found, show_progress="minimal", **last)
        chosen = [self._seen, self._name, self._head]
        self._name.input(self._renew_heads, [self._seen, self._name], [self._head, self._plot], **last)
        self._head.input(self._draw, chosen, self._plot, **last)
        self._layer.input(self._tell, [self._seen, self._layer], self._table, **last)

    def _renew_heads(self, seen, name):
        return gradio.Dropdown(self._heads_of(name), value=ALL), self._draw(seen, name, ALL)

    def _heads_of(self, name):
        return [ALL, *map(str, range(self._session.heads.get(name, 0)))]

    def _shown(self, answer):
        return f"{answer:.4g}" if self._session.kind == "number" else answer


def _alert(message):
    return f'<p role="alert">{html.escape(message)}</p>'


def _path_of(payload):
    """The path of an uploaded file, or None."""
    return payload and payload.path


async def _in_one_line(process, *args, **kwargs):
    """Answers a call that Gradio or the page cannot process with one line, without a traceback."""
    try:
        return await process(*args, **kwargs)
    except Exception as error:
        raise gradio.Error(_logged(error), print_exception=False) from None


def _logged(error):
    """The reason for an error in one line, which goes to the log."""
    reason = (str(getattr(error, "message", error)).strip() or type(error).__name__).splitlines()[0][:200]
    LOG.error("refused a request: %s", reason)
    return reason


class Guard:
    """Answers a request that fails with one line, and refuses one whose Host header is not one of `names`.

    A foreign site may point its own name at this machine and then read the page. Without `names`, any name is allowed.
    """

    def __init__(self, app, names):
        self._app, self._names = app, names

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        started = False

        async def watched(message):
            nonlocal started
            started = True
            await send(message)

        try:
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if self._names and urllib.parse.urlsplit(f"//{host}").hostname not in self._names:
                raise errors.ConfigError(f"the Host header must be one of {', '.join(self._names)}; see --host")
            await self._app(scope, receive, watched)
        except Exception as error:
            reason = _logged(error)
            if scope["type"] == "http" and not started:
                await responses.PlainTextResponse(reason, 400)(scope, receive, send)


def launch(served, *, host, port):
    """Serves the page of a session in background threads and returns its address; raises ConfigError if it cannot."""
    fonts = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}  # no downloads
    names = () if host in EVERYWHERE else tuple(dict.fromkeys((*LOCAL, host.lower())))
    guard = middleware.Middleware(Guard, names=names)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()  # Gradio's own failure would print more than a line
        _, address, _ = Page(served).blocks.launch(
            server_name=host, server_port=port, share=False, quiet=True, prevent_thread_lock=True, css=CSS,
            theme=gradio.themes.Default(primary_hue="blue", **fonts), footer_links=[], run_history=False,
            enable_monitoring=False, ssr_mode=False, max_file_size="64mb", app_kwargs={"middleware": [guard]},
        )  # fmt: skip
    except Exception as error:  # a busy port, an unknown host, an address that Gradio cannot spell
        raise errors.ConfigError(f"--host={host} --port={port}: cannot serve the page there: {error}") from error
    return address
