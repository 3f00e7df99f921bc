import { createCollector } from "./collector.ts";
import { quiet } from "./transcript-index.fixture.ts";
import { openTranscriptIndex } from "./transcript-index.ts";

/** A process that collects a home into an index, again and again: `node run-collector.fixture.ts HOME INDEX`. */
const [, , home = "", path = ""] = process.argv;
const corpus = openTranscriptIndex({ path, log: quiet });
const { collect } = createCollector({
  homes: [home],
  codexHome: `${home}/codex`,
  corpus,
  log: quiet,
  now: () => new Date(),
});
process.stdout.write("ready\n");
for (;;) await collect(new AbortController().signal);
