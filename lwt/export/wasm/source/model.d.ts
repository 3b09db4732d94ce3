/** What every model has. Calls are synchronous; a worker keeps a page responsive. */
interface Program {
  /** Of lwt, which wrote the program. */
  readonly version: string;
  readonly network: string;
  /** The type of states between the layers: "fp16" or "int8". */
  readonly states: string;
  readonly tokenizer: string;
  /** 32 bits that identify weights and vocabulary, in hexadecimal. */
  readonly fingerprint: string;
  /** The most tokens that it reads. */
  readonly length: number;
  /** Size of model.wasm. */
  readonly bytes: number;
  /** Bytes of the memory that it takes, which contains the weights. */
  readonly memory: number;
  /** Runs the golden texts; `bits` is the hash that the program in C prints. */
  selfTest(): { failures: number; bits: string };
}

interface Counts {
  /** Pieces of the text, and how many of them are not in the vocabulary. */
  pieces: number;
  unknown: number;
  /** Whether the text had more tokens than the model reads; the others were left out. */
  cut: boolean;
}

export interface Classification extends Counts {
  label: string;
  /** The index of `label` in `labels`. */
  best: number;
  logits: Float32Array;
  probabilities: Float32Array;
  /** That the network read, with those at the start and the end of texts. */
  tokens: number;
}

export interface Regression extends Counts {
  value: number;
  tokens: number;
}

export interface Translation extends Counts {
  text: string;
  /** Pieces of the translation. */
  answerPieces: number;
}

export interface Classifier extends Program {
  readonly labels: string[];
  /** The number of texts of a record, one or two. */
  readonly texts: number;
  /** @throws TypeError for anything else than `texts` strings. A zero character is read as a space. */
  classify(...texts: string[]): @ANSWER@;
}

/** A classifier that has many tasks. At first, the first one answers. */
export interface Tasks extends Classifier {
  readonly tasks: string[];
  /** The one that answers; `labels` are its classes. */
  readonly task: string;
  /** Makes another task answer. @throws TypeError if there is none of this name. */
  select(name: string): void;
  /**
   * Takes the tasks of another export of the same base, the bytes of its tasks.bin.
   * @throws TypeError if the length differs, or a slot is damaged or of another network; the tasks then stay.
   */
  replace(slots: Uint8Array): void;
}

export interface Translator extends Program {
  readonly beams: number;
  /** @throws TypeError for anything else than a string. A zero character is read as a space. */
  translate(text: string): Translation;
}

/** Loads model.wasm from beside model.js, from a URL, or from its bytes. */
export function load(source?: URL | BufferSource): Promise<@KIND@>;
