import { join } from "node:path";

/** For NODE_COMPILE_CACHE: half of a start from source is the stripping of types, done once for all runs. */
export const compileCache = join(import.meta.dirname, "..", "node_modules", ".cache", "svc-test");
