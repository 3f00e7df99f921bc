import { locksSuite } from "../../../test/ports/locks-suite.ts";
import { createLocalLocks } from "./local-locks.ts";

locksSuite("local", {
  open: async () => {
    const locks = createLocalLocks();
    return [locks, locks];
  },
});
