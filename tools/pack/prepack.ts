import { join } from "node:path";
import { build } from "../build.ts";
import { npmPid, startGuard } from "./guard.ts";
import { putBack, swapIn } from "./swap.ts";

// Called by npm before it packs: the program is built anew, and the published package.json takes its place.
const root = join(import.meta.dirname, "..", "..");
const npm = await npmPid();

// What an earlier `npm pack` left that did not get to its end.
await putBack(root);
await build(root);
await swapIn(root);
startGuard(npm);
