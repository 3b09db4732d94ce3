// A text classifier or translator as WebAssembly, for pages, workers and Node. The types are in model.d.ts.
//
//     import { load } from "./model.js";
//     const model = await load();                        // model.wasm, beside this file
//     model.classify("play some jazz").label             // of a classifier
//     model.translate("ein hund rennt im schnee").text   // of a translator
//     model.select("mood")                               // of many tasks: makes one of model.tasks answer

const CUT = 1; // of lwt_status in C
const REFUSED = { 3: "has more classes than those of the program", 5: "is empty or damaged", 6: "was made for another network" };

class Program {
  #wasm;

  constructor(wasm, bytes) {
    this.#wasm = wasm;
    const [network, states, tokenizer, fingerprint] = this._words(wasm.describe(), 4);
    this.version = this._text(wasm.version());
    this.network = this._text(network);
    this.states = this._text(states);
    this.tokenizer = this._text(tokenizer);
    this.fingerprint = fingerprint.toString(16).padStart(8, "0");
    this.bytes = bytes;
  }

  get memory() {
    return this.#wasm.memory.buffer.byteLength;
  }

  selfTest() {
    const failures = this.#wasm.self_test();
    return { failures, bits: (this.#wasm.self_test_bits() >>> 0).toString(16).padStart(8, "0") };
  }

  // Calls a function with texts, which are copied behind all that the program has in memory; returns its status.
  _call(name, texts) {
    const rows = texts.map((text) => {
      if (typeof text !== "string") throw new TypeError(`${name}: ${text} is not a string`);
      return new TextEncoder().encode(text.replaceAll("\0", " ") + "\0"); // a zero byte ends a text in C
    });
    const start = this.#wasm.__heap_base.value;
    const end = rows.reduce((sum, row) => sum + row.length, start);
    const missing = Math.ceil((end - this.memory) / 65536);
    if (missing > 0) this.#wasm.memory.grow(missing);
    let at = start;
    const places = rows.map((row) => {
      new Uint8Array(this.#wasm.memory.buffer).set(row, at);
      return (at += row.length) - row.length;
    });
    return this.#wasm[name](...places);
  }

  _place(name, ...numbers) {
    return this.#wasm[name](...numbers);
  }

  _bytes(at, count) {
    return new Uint8Array(this.#wasm.memory.buffer, at, count);
  }

  _labels(count) {
    return [...this._words(this._place("labels"), count)].map((at) => this._text(at));
  }

  _words(at, count) {
    return new Uint32Array(this.#wasm.memory.buffer, at, count);
  }

  _floats(at, count) {
    return new Float32Array(this.#wasm.memory.buffer, at, count).slice();
  }

  _text(at, length) {
    const bytes = this._bytes(at);
    return new TextDecoder().decode(bytes.subarray(0, length ?? bytes.indexOf(0)));
  }
}

export class Classifier extends Program {
  #outputs; // room for logits in an answer

  constructor(wasm, bytes) {
    super(wasm, bytes);
    const [classes, texts, length] = this._words(wasm.describe() + 16, 3);
    Object.assign(this, { texts, length, labels: this._labels(classes) });
    this.#outputs = classes || 1;
  }

  classify(...texts) {
    if (texts.length !== this.texts) throw new TypeError(`classify: ${texts.length} texts; the model reads ${this.texts}`);
    const cut = this._call("classify", texts) === CUT;
    const count = this.labels.length || 1;
    const logits = this._floats(this._place("answer"), count);
    const [best, tokens, pieces, unknown] = this._words(this._place("answer") + 4 * this.#outputs, 4);
    const counts = { tokens, pieces, unknown, cut };
    if (!this.labels.length) return { value: logits[0], ...counts };
    const probabilities = this._floats(this._place("probabilities"), count);
    return { label: this.labels[best], best, logits, probabilities, ...counts };
  }
}

export class Tasks extends Classifier {
  constructor(wasm, bytes) {
    super(wasm, bytes);
    this._read();
  }

  select(name) {
    const slot = this.tasks.indexOf(name);
    if (slot < 0) throw new TypeError(`select: there is no task ${name}; choose from ${this.tasks.join(", ")}`);
    this._select(slot);
  }

  replace(slots) {
    const own = this._bytes(this._place("slots"), this._place("slots_bytes"));
    if (slots.length !== own.length) throw new TypeError(`replace: ${slots.length} bytes; the slots have ${own.length}`);
    const [before, slot] = [own.slice(), this.tasks.indexOf(this.task)];
    own.set(slots);
    try {
      this._read();
    } catch (error) {
      own.set(before);
      this._read();
      this._select(slot);
      throw error;
    }
  }

  // The names of all tasks; the first then answers.
  _read() {
    const count = this._place("slots_bytes") / this._place("slot_bytes");
    this.tasks = Array.from({ length: count }, (_, slot) => (this._select(slot), this.task));
    this._select(0);
  }

  _select(slot) {
    const status = this._place("select", slot);
    if (status) throw new TypeError(`slot ${slot} ${REFUSED[status]}`);
    const [, name, classes] = this._words(this._place("task"), 3);
    Object.assign(this, { task: this._text(name), labels: this._labels(classes) });
  }
}

export class Translator extends Program {
  constructor(wasm, bytes) {
    super(wasm, bytes);
    const [beams, length] = this._words(wasm.describe() + 16, 2);
    Object.assign(this, { beams, length });
  }

  translate(text) {
    const cut = this._call("translate", [text]) === CUT;
    const [pieces, unknown, answerPieces, bytes] = this._words(this._place("answer"), 4);
    return { text: this._text(this._place("text"), bytes), pieces, unknown, answerPieces, cut };
  }
}

export async function load(source = new URL("model.wasm", import.meta.url)) {
  const bytes = source instanceof URL ? await read(source) : source;
  const { instance } = await WebAssembly.instantiate(bytes);
  if (!instance.exports.describe) throw new Error("the WebAssembly is no model of lwt");
  const kind = instance.exports.translate ? Translator : instance.exports.select ? Tasks : Classifier;
  return new kind(instance.exports, bytes.byteLength);
}

async function read(url) {
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: status ${response.status}`);
  return response.arrayBuffer();
}
