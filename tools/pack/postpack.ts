import { join } from "node:path";
import { putBack } from "./swap.ts";

// Called by npm after it has packed.
if ((await putBack(join(import.meta.dirname, "..", ".."))) !== "published") {
  process.stderr.write("package.json changed while npm packed it: do not use this tarball, pack again\n");
  process.exitCode = 1;
}
