import { instancesSuite } from "../../test/ports/instances-suite.ts";
import { locksSuite } from "../../test/ports/locks-suite.ts";
import { createLocalInstances } from "./instances.ts";
import { createLocalLocks } from "./locks.ts";

instancesSuite("local", { open: async () => createLocalInstances() });

locksSuite("local", {
  open: async () => {
    const locks = createLocalLocks();
    return [locks, locks];
  },
});
