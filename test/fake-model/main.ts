/** Runs the scripted model by hand: `node test/fake-model/main.ts [PORT]` prints its URL and serves until it gets SIGTERM or SIGINT. */
import { startFakeModel } from "./fake-model.ts";

const model = await startFakeModel({ port: Number(process.argv[2] ?? 0) });
process.stdout.write(`${model.url}\n`);
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void model.close());
