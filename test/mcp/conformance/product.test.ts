import { beforeAll, expect, test } from "vitest";
import { startService } from "../../service.ts";
import { productExceptions, withoutFixture } from "./exceptions.ts";
import { revisions, runSuite } from "./suite.ts";

let url: string;
beforeAll(async () => void ({ url } = await startService()));

/** The official conformance suite against the real service: the scenarios that ask for nothing but the protocol. */
test.each(revisions)(
  "the service itself passes what needs no tools of the suite's own, for %s",
  async (revision) => {
    const { ran, shortcomings } = await runSuite(`${url}/mcp`, revision);
    const scenarios = withoutFixture[revision];
    expect(ran).toEqual(expect.arrayContaining([...scenarios]));
    const ours = (name: string): boolean => scenarios.includes(name.split(":")[0] ?? "");
    expect(shortcomings.filter(ours).toSorted()).toEqual(Object.keys(productExceptions[revision]).toSorted());
  },
);
