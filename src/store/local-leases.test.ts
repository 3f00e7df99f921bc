import { instancesSuite } from "../../test/ports/instances-suite.ts";
import { locksSuite } from "../../test/ports/locks-suite.ts";
import { createLocalInstances, createLocalLocks } from "./local-leases.ts";

instancesSuite("local", { open: async () => createLocalInstances() });

locksSuite("local", {
  open: async () => {
    const locks = createLocalLocks();
    return [locks, locks];
  },
});
