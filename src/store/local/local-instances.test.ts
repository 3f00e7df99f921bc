import { instancesSuite } from "../../../test/ports/instances-suite.ts";
import { createLocalInstances } from "./local-instances.ts";

instancesSuite("local", { open: async () => createLocalInstances() });
