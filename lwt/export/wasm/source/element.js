// <lwt-model>: answers as one types, and shows the time of each answer and the sizes of the model in `folder`.
//
//     <script type="module" src="element.js"></script>
//     <lwt-model folder="./" texts='["play some jazz"]' examples='["is it cold"]'>Shown where no model loads.</lwt-model>

const SHOWN = 12; // classes
const RECENT = 20; // answers
const STYLE = `
  :host { display: block; --accent: #2962a8; --weak: #8883; }
  textarea { width: 100%; height: 5rem; box-sizing: border-box; padding: .6rem; margin: 0 0 .6rem; font: inherit;
    color: inherit; background: transparent; border: 1px solid #8888; border-radius: 4px; }
  select { margin: 0 0 .6rem; padding: .3rem; font: inherit; }
  button { margin: 0 .5rem .5rem 0; padding: .3rem .6rem; font: inherit; font-size: .9em; text-align: left; cursor: pointer;
    color: inherit; background: var(--weak); border: 0; border-radius: 4px; }
  #answer { min-height: 4rem; margin: .3rem 0 1rem; overflow-wrap: anywhere; }
  #answer > p { margin: 0; padding: .6rem; border-left: 4px solid var(--accent); background: var(--weak); font-size: 1.2em; }
  #answer > .notice { margin-top: .6rem; border-color: #c60; font-size: 1em; }
  .class { display: grid; grid-template-columns: minmax(0, 13rem) minmax(25%, 1fr) 4.6rem; gap: .6rem; align-items: center; }
  .class:first-child { font-weight: bold; }
  .class span:first-child { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
  .class span:last-child { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
  .bar { height: .8rem; background: var(--weak); }
  .bar i { display: block; height: 100%; background: var(--accent); }
  dl { display: grid; grid-template-columns: auto 1fr; gap: .1rem 1.5rem; margin: 0; font-size: .9em; }
  dt { opacity: .7; }
  dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
`;

function element(name, content = [], options = {}) {
  const made = Object.assign(document.createElement(name), options);
  made.append(...[content].flat());
  return made;
}

function bar([label, share]) {
  const fill = element("i", "", { style: `width: ${100 * share}%` });
  const cells = [element("span", label, { title: label }), element("div", fill, { className: "bar" })];
  return element("div", [...cells, element("span", `${(100 * share).toFixed(1)} %`)], { className: "class" });
}

const kilobytes = (bytes) => `${Math.round(bytes / 1000).toLocaleString("en")} kB`;

class Model extends HTMLElement {
  #model;
  #loaded; // milliseconds
  #times = [];
  #texts;
  #answer = element("div", element("p", "Loading…"), { id: "answer", ariaLive: "polite" });
  #figures = element("dl", [], { id: "figures" });

  async connectedCallback() {
    const root = this.attachShadow({ mode: "open" });
    root.append(element("style", STYLE), this.#answer);
    try {
      const start = performance.now();
      const folder = new URL(this.getAttribute("folder") ?? ".", document.baseURI);
      const { load } = await import(new URL("model.js", folder));
      this.#model = await load();
      this.#loaded = performance.now() - start;
    } catch (error) {
      const parts = [element("slot"), element("br"), element("small", String(error))];
      return this.#answer.replaceChildren(element("p", parts, { className: "notice" }));
    }
    const given = JSON.parse(this.getAttribute("texts") ?? '[""]');
    this.#texts = given.map((value, i) => element("textarea", "", { value, ariaLabel: i ? "second text" : "text" }));
    const examples = JSON.parse(this.getAttribute("examples") ?? "[]").map((text) => {
      const show = () => ((this.#texts[0].value = text), this.#run());
      return element("button", text, { type: "button", onclick: show });
    });
    root.prepend(...this.#choice(), ...this.#texts, ...examples);
    root.append(this.#figures);
    this.#texts.forEach((text) => text.addEventListener("input", () => this.#run()));
    this.#run();
  }

  #choice() {
    const options = (this.#model.tasks ?? []).map((name) => element("option", name));
    const choice = element("select", options, { ariaLabel: "task" });
    choice.addEventListener("change", () => (this.#model.select(choice.value), this.#run()));
    return options.length ? [choice] : [];
  }

  #run() {
    const model = this.#model;
    const given = this.#texts.map((text) => text.value);
    if (!given.some((text) => text.trim())) return this.#answer.replaceChildren(element("p", "Type a text."));
    const start = performance.now();
    const found = model.translate ? model.translate(...given) : model.classify(...given);
    this.#times.unshift(performance.now() - start);
    this.#answer.replaceChildren(...this.#show(found));
    const times = this.#times.slice(0, RECENT).sort((a, b) => a - b);
    const median = times[times.length >> 1].toFixed(1);
    const figures = {
      "Time": `${this.#times[0].toFixed(1)} ms` + (times.length > 1 ? `; median of ${times.length}: ${median} ms` : ""),
      "Text": `${found.pieces} pieces, ${found.unknown} unknown`,
      "model.wasm": `${kilobytes(model.bytes)}, loaded in ${this.#loaded.toFixed(0)} ms`,
      "Memory": `${kilobytes(model.memory)}, weights included`,
      "Model": `${model.network}, ${model.states} states, ${model.tokenizer}, ${model.fingerprint}`,
    };
    const rows = Object.entries(figures).flatMap(([name, value]) => [element("dt", name), element("dd", value)]);
    this.#figures.replaceChildren(...rows);
  }

  #show(found) {
    const cut = `The text is too long: the model read ${found.pieces} pieces of it and left out the others.`;
    const notice = found.cut ? [element("p", cut, { className: "notice" })] : [];
    if (!("label" in found)) return [element("p", "value" in found ? found.value.toPrecision(4) : found.text), ...notice];
    const shares = this.#model.labels.map((label, i) => [label, found.probabilities[i]]);
    return [...shares.sort((a, b) => b[1] - a[1]).slice(0, SHOWN).map(bar), ...notice];
  }
}

customElements.define("lwt-model", Model);
