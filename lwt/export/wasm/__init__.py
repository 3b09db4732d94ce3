"""Programs for the browser: the engine in C as WebAssembly."""
